-- +goose Up
-- Epochs never fall, also across jobs of one subject, and the gaps between them are random: nobody finds a job's by counting.
-- +goose StatementBegin
CREATE FUNCTION next_epoch() RETURNS bigint LANGUAGE sql VOLATILE AS $$
    SELECT (nextval('job_epoch') << 28) | ('x' || left(gen_random_uuid()::text, 7))::bit(28)::bigint
$$;
-- +goose StatementEnd

-- Report numbers of the session n lie between n << 32 and (n + 1) << 32. What is numbered past its host's session would never
-- be written again.
UPDATE host_sessions SET report_seq = 0, digest = '' WHERE report_seq >> 32 > number;
UPDATE hosts h SET report_seq = 0 FROM host_sessions s WHERE s.host_id = h.id AND h.report_seq >> 32 > s.number;
UPDATE vms v SET report_seq = 0 FROM host_sessions s WHERE s.host_id = v.host_id AND v.report_seq >> 32 > s.number;
UPDATE pool_hosts p SET report_seq = 0 FROM host_sessions s WHERE s.host_id = p.host_id AND p.report_seq >> 32 > s.number;
UPDATE network_hosts n SET report_seq = 0 FROM host_sessions s WHERE s.host_id = n.host_id AND n.report_seq >> 32 > s.number;
