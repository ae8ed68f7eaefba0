-- name: EventsAfter :many
-- The readable events after one, oldest first. The last row is no event (is_end): its key is that of the newest readable
-- event, known says that the log has the event with the key after, and pending that written events are not readable
-- yet. open_types are the types whose objects the actor sees all, shared_types those whose objects without a project are
-- not only for users who see all projects.
SELECT x.key::text AS key, x.at::timestamptz AS at, x.type::text AS type, x.action::text AS action, x.object_id::text AS object_id, x.name::text AS name, COALESCE(x.project_id, '')::text AS project, x.audience::text[] AS audience, x.subject::text AS subject,
       COALESCE(x.parent_id, '')::text AS parent, x.kind::text AS kind, x.state::text AS state, COALESCE(x.host_id, '')::text AS host, x.is_end::boolean AS is_end, x.known::boolean AS known, x.pending::boolean AS pending
FROM (SELECT e.transaction, e.number, e.key::text, e.at, e.type, e.action, e.object_id, e.name, e.project_id, COALESCE(e.audience, '{}') AS audience, e.subject, e.parent_id, e.kind, e.state, e.host_id,
             false AS is_end, true AS known, false AS pending
      FROM events_after(NULLIF(@after::text, '')::uuid, @types::text[], @project::text, @open_types::text[], @projects::text[], @own::text, @shared_types::text[], @most::integer) e
      UNION ALL
      SELECT NULL, NULL, COALESCE(n.key::text, ''), now(), '', '', '', '', NULL, '{}', '', NULL, '', '', NULL,
             true, EXISTS (SELECT 1 FROM events s WHERE s.key = NULLIF(@after, '')::uuid), COALESCE((SELECT p.transaction FROM events p ORDER BY p.transaction DESC, p.number DESC LIMIT 1) >= pg_snapshot_xmin(pg_current_snapshot()), false)
      FROM (SELECT 1) AS one LEFT JOIN LATERAL (
          SELECT l.key FROM events l WHERE l.transaction < pg_snapshot_xmin(pg_current_snapshot()) ORDER BY l.transaction DESC, l.number DESC LIMIT 1) n ON true) x
ORDER BY x.is_end, x.transaction, x.number;

-- name: GrantedObjects :many
-- Whether members of the projects see pools, networks, images, templates, flavors, device classes and customization specs of
-- the fleet that exist, as in the lists of these types.
SELECT ('pool:' || p.id)::text AS subject, EXISTS (SELECT 1 FROM pool_grants g WHERE g.pool_id = p.id AND (g.project_id IS NULL OR g.project_id = ANY (@projects::text[])))::boolean AS visible
FROM pools p WHERE p.id = ANY (@pools::text[])
UNION ALL
SELECT ('net:' || n.id), ((n.spec IS NOT NULL OR EXISTS (SELECT 1 FROM assignments a WHERE a.network_id = n.id))
    AND EXISTS (SELECT 1 FROM network_grants g WHERE g.network_id = n.id AND (g.project_id IS NULL OR g.project_id = ANY (@projects))))
FROM networks n WHERE n.id = ANY (@networks::text[])
UNION ALL
SELECT 'image:' || i.id, EXISTS (SELECT 1 FROM image_open g WHERE g.image_id = i.id AND (g.project_id IS NULL OR g.project_id = ANY (@projects::text[])))
FROM images i WHERE i.id = ANY (@images::text[])
UNION ALL
SELECT 'template:' || t.id, EXISTS (SELECT 1 FROM template_grants g WHERE g.template_id = t.id AND (g.project_id IS NULL OR g.project_id = ANY (@projects::text[])))
FROM templates t WHERE t.id = ANY (@templates::text[])
UNION ALL
SELECT 'flavor:' || f.id, EXISTS (SELECT 1 FROM flavor_grants g WHERE g.flavor_id = f.id AND (g.project_id IS NULL OR g.project_id = ANY (@projects::text[])))
FROM flavors f WHERE f.id = ANY (@flavors::text[])
UNION ALL
SELECT 'device-class:' || c.id, EXISTS (SELECT 1 FROM device_class_grants g WHERE g.class_id = c.id AND (g.project_id IS NULL OR g.project_id = ANY (@projects::text[])))
FROM device_classes c WHERE c.id = ANY (@device_classes::text[])
UNION ALL
SELECT 'customization:' || c.id, EXISTS (SELECT 1 FROM customization_grants g WHERE g.customization_id = c.id AND (g.project_id IS NULL OR g.project_id = ANY (@projects::text[])))
FROM customizations c WHERE c.id = ANY (@customizations::text[]);

-- name: PruneEvents :execrows
-- Deletes the oldest events: those older than age, and those beyond the newest events in number. The newest event stays.
WITH newest AS (SELECT n.transaction, n.number FROM events n ORDER BY n.transaction DESC, n.number DESC LIMIT 1)
DELETE FROM events e WHERE e.ctid = ANY (ARRAY(
    SELECT o.ctid FROM (SELECT f.ctid, f.transaction, f.number, f.at FROM events f ORDER BY f.transaction, f.number LIMIT @most) o, newest
    WHERE (o.at < now() - @age::interval OR o.number <= newest.number - @kept::bigint) AND (o.transaction, o.number) < (newest.transaction, newest.number)));

-- name: DropForeignEvents :exec
-- Deletes events of another PostgreSQL server, as after a restore of a dump: their transactions are in this server's
-- future. An empty log begins with a mark.
WITH gone AS (DELETE FROM events e WHERE e.transaction >= pg_snapshot_xmax(pg_current_snapshot()))
INSERT INTO events (type, action) SELECT '', '' WHERE NOT EXISTS (SELECT 1 FROM events o WHERE o.transaction < pg_snapshot_xmax(pg_current_snapshot()));

-- name: LogHostLiveness :one
-- Logs the hosts that went offline or came online, and those whose reports became stale or fresh, since the last call.
WITH changed AS (
    INSERT INTO host_liveness AS k (host_id, online, fresh)
    SELECT s.host_id, is_fresh(s.seen_at, s.fresh_for), COALESCE(is_fresh(s.looked_at, s.fresh_for), false) FROM host_sessions s LEFT JOIN host_liveness l ON l.host_id = s.host_id
    WHERE s.seen_at IS NOT NULL
      AND (l.host_id IS NULL OR (l.online, l.fresh) IS DISTINCT FROM (is_fresh(s.seen_at, s.fresh_for), COALESCE(is_fresh(s.looked_at, s.fresh_for), false)))
    ORDER BY s.host_id
    ON CONFLICT (host_id) DO UPDATE SET online = EXCLUDED.online, fresh = EXCLUDED.fresh RETURNING k.host_id
), logged AS (
    INSERT INTO events (type, object_id, name) SELECT 'host', h.id, h.name FROM changed c JOIN hosts h ON h.id = c.host_id ORDER BY h.id RETURNING object_id
)
SELECT count(tell('host:' || l.object_id)) FROM logged l;
