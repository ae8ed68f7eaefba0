-- +goose Up
-- is_fresh is fleet.Fresh in SQL: seen no longer ago than within, and not in the future. 5 seconds are fleet.ClockStep. The second bound is on
-- an expression, because the planner takes two bounds of one column for a narrow range, and so few hosts for fresh that it looks at
-- all VMs of each.
CREATE FUNCTION is_fresh(seen timestamptz, within interval) RETURNS boolean LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT seen >= now() - within AND seen - interval '5 seconds' <= now()
$$;
