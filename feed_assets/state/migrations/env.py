"""Alembic's environment: migrations use the connection and the transaction of the store."""

from alembic import context

from feed_assets.state.schema import VERSION_TABLE

context.configure(connection=context.config.attributes["connection"], version_table=VERSION_TABLE)
with context.begin_transaction():
    context.run_migrations()
