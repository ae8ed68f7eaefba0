-- +goose Up
-- Most reports change a VM's status and nothing that it is found by. Such a row version stays on its page and no index hears of it (HOT),
-- if the page has room and no index is about the status itself: what one was about stands in a column of its own, kept by a trigger.
ALTER TABLE vms ADD COLUMN starved boolean NOT NULL DEFAULT false; -- the guest waits for its storage: paused by the hypervisor after an I/O error

-- +goose StatementBegin
CREATE FUNCTION keep_starved() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.starved := COALESCE(NEW.status->>'power' = 'paused' AND (NEW.status->>'reason' = 'I/O error' OR NEW.status @> '{"faults": [{"code": "io"}]}'), false);
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER keep_starved BEFORE INSERT ON vms FOR EACH ROW EXECUTE FUNCTION keep_starved();
CREATE TRIGGER keep_starved_change BEFORE UPDATE ON vms FOR EACH ROW
    WHEN (OLD.status IS DISTINCT FROM NEW.status OR OLD.starved IS DISTINCT FROM NEW.starved) EXECUTE FUNCTION keep_starved();
UPDATE vms SET starved = true WHERE status->>'power' = 'paused' AND (status->>'reason' = 'I/O error' OR status @> '{"faults": [{"code": "io"}]}');
DROP INDEX vms_starved;
CREATE INDEX vms_starved ON vms (host_id) WHERE starved;

ALTER TABLE vms SET (fillfactor = 80);
ALTER TABLE hosts SET (fillfactor = 80);
ALTER TABLE assignments SET (fillfactor = 80);

-- Key: assigned, when another pool is assigned to a host, one no more, or a pool is another. What hosts report of pools says nothing of that.
-- +goose StatementBegin
CREATE FUNCTION announce_assigned() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM tell('assigned');
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER announce_assigned AFTER INSERT ON assignments FOR EACH ROW WHEN (NEW.asked <> '') EXECUTE FUNCTION announce_assigned();
CREATE TRIGGER announce_assigned_change AFTER UPDATE OF asked ON assignments FOR EACH ROW WHEN (OLD.asked IS DISTINCT FROM NEW.asked) EXECUTE FUNCTION announce_assigned();
CREATE TRIGGER announce_assigned_end AFTER DELETE ON assignments FOR EACH ROW WHEN (OLD.asked <> '') EXECUTE FUNCTION announce_assigned();
CREATE TRIGGER announce_assigned AFTER UPDATE ON pools FOR EACH ROW WHEN (OLD.* IS DISTINCT FROM NEW.*) EXECUTE FUNCTION announce_assigned();

-- drifted_vms are VMs whose host is heard and has not acted on the newest generation, though nothing is on its way. None that runs on two
-- hosts. How many have drifted the planner cannot know: it takes a third of all for it, and would read them all. So it is told to go by
-- indexes, whenever its plan is made.
-- +goose StatementBegin
CREATE FUNCTION drifted_vms(fresh interval) RETURNS SETOF text LANGUAGE plpgsql STABLE ROWS 100
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
BEGIN
    RETURN QUERY SELECT v.id FROM vms v JOIN host_sessions s ON s.host_id = v.host_id
    WHERE (v.generation > v.observed_generation OR v.deleted_at IS NOT NULL) AND s.looked_at > now() - fresh
      AND (v.elsewhere @> '[{"alarm": true}]') IS NOT TRUE
      AND NOT EXISTS (SELECT 1 FROM jobs j WHERE j.host_id = v.host_id AND j.subject = 'vm:' || v.id
                      AND j.state IN ('queued', 'running') AND j.task_id IS NOT NULL)
    LIMIT 500;
END $$;
-- +goose StatementEnd
