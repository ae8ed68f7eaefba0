-- +goose Up
-- Channels send notifications of alarms: ADR 104. A channel with a project sends the alarms of the project's objects, one
-- with a user sends those that the user may see, any other sends those of the fleet.
CREATE TABLE channels (
    id         text PRIMARY KEY, -- ascends with time
    name       text COLLATE "C" NOT NULL,
    project_id text REFERENCES projects ON DELETE CASCADE,
    user_id    text REFERENCES users ON DELETE CASCADE,
    spec       jsonb NOT NULL, -- channel.Spec without URL and Secret
    target     text NOT NULL, -- the receiver without secrets
    signed     boolean NOT NULL, -- sealed contains a Secret
    by_key     text, -- the key that encrypted sealed; NULL: the channel has no secrets
    sealed     bytea, -- URL and Secret
    generation bigint NOT NULL DEFAULT 1,
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT channel_name_taken UNIQUE NULLS NOT DISTINCT (project_id, user_id, name),
    CHECK (project_id IS NULL OR user_id IS NULL)
);
CREATE INDEX channels_by_user ON channels (user_id) WHERE user_id IS NOT NULL;

-- Messages of channels, and what became of them. The oldest waiting message of a channel is sent first. Events that follow
-- join the newest message that waits for its first attempt.
CREATE TABLE deliveries (
    id           text PRIMARY KEY, -- ascends with time
    channel_id   text NOT NULL REFERENCES channels ON DELETE CASCADE,
    message      jsonb NOT NULL, -- channel.Message
    summary      text NOT NULL,
    events       integer NOT NULL, -- number of events
    state        text NOT NULL DEFAULT 'waiting', -- channel.DeliveryState
    created_at   timestamptz NOT NULL DEFAULT now(),
    due_at       timestamptz NOT NULL, -- of the next attempt
    leased_until timestamptz, -- a portal is sending the message; after this time another one may
    attempts     integer NOT NULL DEFAULT 0,
    error        text NOT NULL DEFAULT '', -- of the newest attempt
    ended_at     timestamptz
);
CREATE INDEX deliveries_waiting ON deliveries (channel_id, id) WHERE state = 'waiting';
CREATE INDEX deliveries_due ON deliveries (due_at) WHERE state = 'waiting';
CREATE INDEX deliveries_by_channel ON deliveries (channel_id, id DESC);
CREATE INDEX deliveries_by_age ON deliveries (ended_at) WHERE ended_at IS NOT NULL;

-- Events that no pass has yet turned into messages. A mark on the row loses no event that commits late.
ALTER TABLE alarm_events ADD COLUMN notified boolean NOT NULL DEFAULT true;
ALTER TABLE alarm_events ALTER COLUMN notified SET DEFAULT false;
CREATE INDEX alarm_events_new ON alarm_events (id) WHERE NOT notified;

-- Key: channels.
CREATE TRIGGER announce AFTER INSERT OR UPDATE OR DELETE ON channels FOR EACH STATEMENT EXECUTE FUNCTION announce_alarms('channels');
CREATE TRIGGER announce AFTER INSERT OR UPDATE OR DELETE ON deliveries FOR EACH STATEMENT EXECUTE FUNCTION announce_alarms('channels');
