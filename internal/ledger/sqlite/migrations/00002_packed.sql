-- +goose Up
-- Captured output of ended runs may be compressed from here on (internal/joblog). A
-- program that doesn't know that would take it for damaged, so it may not open the
-- ledger beside it. No table differs.
PRAGMA user_version = 2;
