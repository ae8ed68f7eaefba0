-- +goose Up
-- What users ask administrators and owners of projects for: see package request.
CREATE TABLE requests (
    id           text PRIMARY KEY,
    project_id   text NOT NULL REFERENCES projects ON DELETE CASCADE,
    user_id      text REFERENCES users ON DELETE SET NULL,     -- who made it; NULL: the user was deleted
    requested_by text NOT NULL,
    kind         text NOT NULL,
    name         text NOT NULL,                                -- the request in a few words
    reason       text NOT NULL,
    wanted       jsonb NOT NULL,                               -- request.Wanted
    input        jsonb,                                        -- the input of a new VM, with sealed first-boot data; NULL after the decision
    key          text NOT NULL,                                -- equal requests of one user are one request
    state        text NOT NULL DEFAULT 'open' CONSTRAINT request_state_known CHECK (state IN ('open', 'approved', 'refused', 'withdrawn', 'expired')),
    generation   bigint NOT NULL DEFAULT 1,                    -- rises when the user repeats the request, which replaces it
    created_at   timestamptz NOT NULL DEFAULT now(),
    decided_at   timestamptz,
    decided_by   text NOT NULL DEFAULT '',
    comment         text NOT NULL DEFAULT '',                     -- of the decision
    result       jsonb NOT NULL DEFAULT '{}',                  -- request.Result
    notified     boolean NOT NULL DEFAULT false                -- channels were notified of the state
);
CREATE UNIQUE INDEX request_once ON requests (project_id, user_id, kind, key) WHERE state = 'open';
CREATE INDEX requests_by_project ON requests (project_id, created_at);
CREATE INDEX requests_by_user ON requests (user_id) WHERE user_id IS NOT NULL;
CREATE INDEX requests_by_time ON requests (created_at, id);
CREATE INDEX requests_open ON requests (created_at) WHERE state = 'open';
CREATE INDEX requests_to_notify ON requests (id) WHERE NOT notified;

-- Owners of a project approve its new VMs.
ALTER TABLE project_members DROP CONSTRAINT member_role_known;
ALTER TABLE project_members ADD CONSTRAINT member_role_known CHECK (role IN ('member', 'viewer', 'owner'));

-- +goose StatementBegin
-- withdraw_requests withdraws the open requests of a user who leaves a project, or who is deleted.
CREATE FUNCTION withdraw_requests() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    r jsonb := to_jsonb(OLD);
BEGIN
    IF TG_TABLE_NAME = 'users' THEN
        UPDATE requests SET state = 'withdrawn', decided_at = now(), comment = 'The account was deleted.', input = NULL, notified = true
        WHERE user_id = r->>'id' AND state = 'open';
    ELSE
        UPDATE requests SET state = 'withdrawn', decided_at = now(), comment = 'The user left the project.', input = NULL, notified = true
        WHERE project_id = r->>'project_id' AND user_id = r->>'user_id' AND state = 'open';
    END IF;
    RETURN OLD;
END $$;
-- +goose StatementEnd
CREATE TRIGGER withdraw_requests BEFORE DELETE ON project_members FOR EACH ROW EXECUTE FUNCTION withdraw_requests();
CREATE TRIGGER withdraw_requests BEFORE DELETE ON users FOR EACH ROW EXECUTE FUNCTION withdraw_requests();

-- Key: requests.
CREATE TRIGGER announce AFTER INSERT OR UPDATE OR DELETE ON requests FOR EACH STATEMENT EXECUTE FUNCTION announce_alarms('requests');
CREATE TRIGGER log_object AFTER INSERT OR DELETE ON requests FOR EACH ROW EXECUTE FUNCTION log_object('request', 'project_id');
CREATE TRIGGER log_object_change AFTER UPDATE ON requests FOR EACH ROW
    WHEN (OLD.state <> NEW.state OR OLD.generation <> NEW.generation) EXECUTE FUNCTION log_object('request', 'project_id');
