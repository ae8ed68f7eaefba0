-- +goose Up

-- Where the portal that started last listens for agents, for programs that work on the database beside it. Empty while no
-- portal runs, unless the last one was killed.
CREATE TABLE portal_address (
    only_one boolean PRIMARY KEY DEFAULT true CONSTRAINT portal_address_only_one CHECK (only_one),
    agent_url text NOT NULL
);
