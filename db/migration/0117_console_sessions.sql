-- +goose Up
-- Sessions of consoles: one row for each connection of a person to a VM's console. See package console and ADR 116.
CREATE TABLE console_sessions (
    id         text COLLATE "C" PRIMARY KEY,                            -- also that of the relay
    subject    text COLLATE "C" NOT NULL,                               -- vm:<id>, or found:<host>/<id> of a VM that Quantix does not manage
    vm_id      text COLLATE "C" REFERENCES vms ON DELETE CASCADE,       -- NULL: not managed
    uuid       text COLLATE "C" NOT NULL,                               -- of the VM, managed or not
    host_id    text REFERENCES hosts ON DELETE CASCADE,                 -- of a VM that is not managed; otherwise NULL
    project_id text REFERENCES projects ON DELETE CASCADE,              -- NULL: not managed
    vm_name    text NOT NULL,
    kind       text NOT NULL CONSTRAINT console_kind_known CHECK (kind IN ('vnc')),
    user_id    text REFERENCES users ON DELETE SET NULL,                -- NULL: the user was deleted
    user_name  text NOT NULL,
    session    text NOT NULL,                                           -- browser session or API token
    address    text NOT NULL,                                           -- remote address
    opened_at  timestamptz NOT NULL DEFAULT now(),
    seen_at    timestamptz NOT NULL DEFAULT now(),                      -- the portal's last report of the session
    ended_at   timestamptz,
    ended_by   text NOT NULL DEFAULT '',                                -- a person other than the session's user
    end_reason text NOT NULL DEFAULT '',
    keyboard   boolean NOT NULL DEFAULT false,                          -- the session has the keyboard and the mouse; all those of one person have
    asked_at   timestamptz,                                             -- since when the session's user asks for the keyboard
    sent       bigint NOT NULL DEFAULT 0,                               -- bytes from the user to the VM
    shown      bigint NOT NULL DEFAULT 0                                -- bytes from the VM to the user
);
CREATE INDEX console_sessions_open ON console_sessions (subject, opened_at) WHERE ended_at IS NULL;
CREATE INDEX console_sessions_seen ON console_sessions (seen_at) WHERE ended_at IS NULL;
CREATE INDEX console_sessions_ended ON console_sessions (ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX console_sessions_by_time ON console_sessions (opened_at, id);
CREATE INDEX console_sessions_by_project ON console_sessions (project_id, opened_at);
CREATE INDEX console_sessions_by_vm ON console_sessions (vm_id);
CREATE INDEX console_sessions_by_uuid ON console_sessions (uuid, opened_at);
CREATE INDEX console_sessions_by_host ON console_sessions (host_id) WHERE host_id IS NOT NULL;
CREATE INDEX console_sessions_by_user ON console_sessions (user_id) WHERE user_id IS NOT NULL;

-- +goose StatementBegin
-- Keys: consoles, console:<session>, and vm:<id> for the pages of the VM.
CREATE FUNCTION announce_console() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE told text;
BEGIN
    told := tell('consoles', 'console:' || NEW.id, 'vm:' || NEW.vm_id);
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER announce AFTER INSERT ON console_sessions FOR EACH ROW EXECUTE FUNCTION announce_console();
CREATE TRIGGER announce_change AFTER UPDATE ON console_sessions FOR EACH ROW
    WHEN (OLD.ended_at IS DISTINCT FROM NEW.ended_at OR OLD.keyboard <> NEW.keyboard OR OLD.asked_at IS DISTINCT FROM NEW.asked_at)
    EXECUTE FUNCTION announce_console();
