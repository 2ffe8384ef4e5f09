"""How each schema became the next, in `versions`; a migration that is released is never changed."""
