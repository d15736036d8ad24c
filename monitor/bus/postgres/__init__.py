"""The store of many daemons: one PostgreSQL, shards by lease. Imports asyncpg only when opened."""
