"""The worked example: how effective ads were, as a project that uses the public API alone.

Here: transforms as pure functions (`schemas`, `cleaning`, `effectiveness`), assets, expectations, partners, report and
commands. No room below knows ads. Not here: parts that other projects need, too. Only the demo looks inside the
package.
"""
