-- name: LockDeviceClassList :exec
-- Serializes additions and changes of members, so that each sees the previous ones.
SELECT pg_advisory_xact_lock(hashtextextended('device classes', 0));

-- name: CountDeviceClasses :one
SELECT count(*)::bigint FROM device_classes;

-- name: AddDeviceClass :exec
INSERT INTO device_classes (id, name, description, gpu) VALUES (@id, @name, @description, @gpu);

-- name: LockDeviceClass :one
SELECT * FROM device_classes WHERE id = @id FOR UPDATE;

-- name: ShareLockDeviceClass :one
-- Also whether the class is published to the project.
SELECT c.name, EXISTS (SELECT 1 FROM device_class_grants g WHERE g.class_id = c.id AND (g.project_id IS NULL OR g.project_id = @project_id::text)) AS published
FROM device_classes c WHERE c.id = @id FOR SHARE OF c;

-- name: ChangeDeviceClass :exec
UPDATE device_classes SET name = @name, description = @description, gpu = @gpu, generation = generation + 1 WHERE id = @id;

-- name: DeleteDeviceClass :exec
-- Allocations that count no more are deleted with the class.
WITH old AS (DELETE FROM device_allocations a WHERE a.class_id = @id)
DELETE FROM device_classes c WHERE c.id = @id;

-- name: VMsOfDeviceClass :many
-- VMs whose specs name the class, by name. The rows are found by the index on specs, before they are sorted.
WITH named AS MATERIALIZED (
    SELECT v.id, v.name, v.recycled_at FROM vms v WHERE v.spec @> jsonb_build_object('deviceClasses', jsonb_build_array(jsonb_build_object('classId', @id::text)))
)
SELECT n.id, (n.name || in_bin(n.recycled_at))::text AS name FROM named n ORDER BY n.name LIMIT @most;

-- name: ListDeviceClasses :many
-- All classes, or those published to one of the projects, by name.
SELECT c.* FROM device_classes c
WHERE (@id::text = '' OR c.id = @id)
  AND (@all_classes::boolean OR EXISTS (SELECT 1 FROM device_class_grants g WHERE g.class_id = c.id AND (g.project_id IS NULL OR g.project_id = ANY (@projects::text[]))))
ORDER BY c.name;

-- name: DeviceClassNames :many
-- Names of the classes among ids that the actor may see.
SELECT c.id, c.name FROM device_classes c
WHERE c.id = ANY (@ids::text[])
  AND (@all_classes::boolean OR EXISTS (SELECT 1 FROM device_class_grants g WHERE g.class_id = c.id AND (g.project_id IS NULL OR g.project_id = ANY (@projects::text[]))));

-- name: DeviceClassGrants :many
-- The grants of classes to all projects, and those to the projects that an actor sees.
SELECT g.class_id, g.project_id, COALESCE(p.name, '')::text AS project, g.granted_by, g.granted_at
FROM device_class_grants g LEFT JOIN projects p ON p.id = g.project_id
WHERE (@id::text = '' OR g.class_id = @id) AND (@all_projects::boolean OR g.project_id IS NULL OR g.project_id = ANY (@projects::text[]))
ORDER BY g.class_id, p.name NULLS FIRST;

-- name: GrantDeviceClass :execrows
-- project_id NULL grants to all projects.
INSERT INTO device_class_grants (class_id, project_id, granted_by) VALUES (@class_id, sqlc.narg(project_id), @granted_by) ON CONFLICT DO NOTHING;

-- name: RevokeDeviceClass :execrows
DELETE FROM device_class_grants WHERE class_id = @class_id AND project_id IS NOT DISTINCT FROM sqlc.narg(project_id);

-- name: AddDeviceClassMembers :exec
INSERT INTO device_class_members (class_id, host_id, device)
SELECT @class_id, m.host_id, m.device FROM (SELECT unnest(@hosts::text[]) AS host_id, unnest(@devices::text[]) AS device) m;

-- name: RemoveDeviceClassMembers :exec
DELETE FROM device_class_members d USING (SELECT unnest(@hosts::text[]) AS host_id, unnest(@devices::text[]) AS device) m
WHERE d.class_id = @class_id AND d.host_id = m.host_id AND d.device = m.device;

-- name: MemberDevices :many
-- What hosts report on the devices, and the class that each is in.
SELECT h.id AS host_id, h.name AS host_name, m.device::text AS device, (r.device IS NOT NULL)::boolean AS reported, COALESCE(r.name, '')::text AS name,
    COALESCE(r.class, '')::text AS pci_class, COALESCE(c.id, '')::text AS class_id, COALESCE(c.name, '')::text AS class_name
FROM (SELECT unnest(@hosts::text[]) AS host_id, unnest(@devices::text[]) AS device) m JOIN hosts h ON h.id = m.host_id
LEFT JOIN LATERAL (SELECT d->>'device' AS device, d->>'name' AS name, d->>'class' AS class
    FROM jsonb_path_query(h.status, 'lax $.inventory.devices[*] ? (@.device == $d)', jsonb_build_object('d', m.device)) d LIMIT 1) r ON true
LEFT JOIN device_class_members o ON o.host_id = m.host_id AND o.device = m.device LEFT JOIN device_classes c ON c.id = o.class_id;

-- name: AvailableDevices :many
-- Reported devices that are in no class and match the text, by host.
SELECT h.id AS host_id, h.name AS host_name, d.device::text AS device, COALESCE(d.name, '')::text AS name, COALESCE(d.class, '')::text AS pci_class, COALESCE(d.iommu, '')::text AS iommu
FROM hosts h
CROSS JOIN LATERAL jsonb_to_recordset(CASE jsonb_typeof(h.status->'inventory'->'devices') WHEN 'array' THEN h.status->'inventory'->'devices' ELSE '[]' END) AS d (device text, name text, class text, iommu text)
WHERE d.device NOT LIKE 'blk/%' AND (h.name ILIKE @pattern::text OR d.name ILIKE @pattern OR d.device ILIKE @pattern)
  AND NOT EXISTS (SELECT 1 FROM device_class_members m WHERE m.host_id = h.id AND m.device = d.device)
ORDER BY h.name, d.device LIMIT @most;

-- name: DevicesOfClasses :many
-- The devices of classes on one host, or on all hosts if @host is empty. used is the number of VMs that have the device,
-- by their specs or by allocations; allocations of @vm do not count, and mine is whether it has one.
SELECT m.class_id, m.host_id, h.name AS host_name, m.device, (r.device IS NOT NULL)::boolean AS reported, COALESCE(r.name, '')::text AS name,
    (m.device NOT LIKE 'pci/%' OR COALESCE(r.iommu, '') <> '')::boolean AS usable, COALESCE(NULLIF(r.most, 0), 1)::bigint AS capacity, u.n::bigint AS used,
    EXISTS (SELECT 1 FROM device_allocations a WHERE a.vm_id = @vm::text AND a.host_id = m.host_id AND a.device = m.device)::boolean AS mine
FROM device_class_members m JOIN hosts h ON h.id = m.host_id
LEFT JOIN LATERAL (SELECT d->>'device' AS device, d->>'name' AS name, d->>'iommu' AS iommu, (d->>'most')::bigint AS most
    FROM jsonb_path_query(h.status, 'lax $.inventory.devices[*] ? (@.device == $d && !(@.empty == true))', jsonb_build_object('d', m.device)) d LIMIT 1) r ON true
CROSS JOIN LATERAL (SELECT count(DISTINCT v.id) AS n FROM (
    SELECT v.id FROM vms v WHERE v.spec @> jsonb_build_object('hostDevices', jsonb_build_array(jsonb_build_object('hostId', m.host_id, 'device', m.device)))
    UNION ALL SELECT a.vm_id FROM device_uses a WHERE a.host_id = m.host_id AND a.device = m.device AND a.vm_id <> @vm) v) u
WHERE (@host::text = '' OR m.host_id = @host) AND m.class_id = ANY (@classes::text[])
ORDER BY m.class_id, h.name, m.device;

-- name: CountDevicesOfClasses :many
-- The devices of each class that its hosts can pass through, and those that no VM has: see DevicesOfClasses.
SELECT m.class_id, sum(r.capacity)::bigint AS total, sum(GREATEST(r.capacity - u.n, 0))::bigint AS free
FROM device_class_members m JOIN hosts h ON h.id = m.host_id
CROSS JOIN LATERAL (SELECT COALESCE(NULLIF((d->>'most')::bigint, 0), 1) AS capacity
    FROM jsonb_path_query(h.status, 'lax $.inventory.devices[*] ? (@.device == $d && !(@.empty == true))', jsonb_build_object('d', m.device)) d
    WHERE m.device NOT LIKE 'pci/%' OR COALESCE(d->>'iommu', '') <> '' LIMIT 1) r
CROSS JOIN LATERAL (SELECT count(DISTINCT v.id) AS n FROM (
    SELECT v.id FROM vms v WHERE v.spec @> jsonb_build_object('hostDevices', jsonb_build_array(jsonb_build_object('hostId', m.host_id, 'device', m.device)))
    UNION ALL SELECT a.vm_id FROM device_uses a WHERE a.host_id = m.host_id AND a.device = m.device) v) u
WHERE m.class_id = ANY (@classes::text[]) GROUP BY m.class_id;

-- name: UsersOfDevices :many
-- The VMs that use devices of a class, by their specs or by allocations.
SELECT m.host_id, m.device, v.id, (v.name || in_bin(v.recycled_at))::text AS name FROM device_class_members m CROSS JOIN LATERAL (
    SELECT v.id, v.name, v.recycled_at FROM vms v WHERE v.spec @> jsonb_build_object('hostDevices', jsonb_build_array(jsonb_build_object('hostId', m.host_id, 'device', m.device)))
    UNION SELECT v.id, v.name, v.recycled_at FROM device_uses a JOIN vms v ON v.id = a.vm_id WHERE a.host_id = m.host_id AND a.device = m.device
    ORDER BY 2 LIMIT 20) v
WHERE m.class_id = @class_id::text ORDER BY m.host_id, m.device, v.name;

-- name: Allocate :exec
-- Allocations of other VMs that count no more are deleted.
WITH old AS (DELETE FROM device_allocations a WHERE a.host_id = @host_id AND a.device = @device AND a.vm_id <> @vm_id
    AND NOT EXISTS (SELECT 1 FROM device_uses u WHERE u.host_id = a.host_id AND u.device = a.device AND u.vm_id = a.vm_id))
INSERT INTO device_allocations (vm_id, class_id, host_id, device) VALUES (@vm_id, @class_id, @host_id, @device)
ON CONFLICT (host_id, device, vm_id) DO UPDATE SET class_id = EXCLUDED.class_id;

-- name: Deallocate :exec
-- Frees the VM's devices on the host, except those to keep.
DELETE FROM device_allocations WHERE vm_id = @vm_id AND host_id = @host_id AND device <> ALL (@keep::text[]);

-- name: DropOldAllocations :exec
-- Deletes the VM's allocations that count no more.
DELETE FROM device_allocations a WHERE a.vm_id = @vm_id
    AND NOT EXISTS (SELECT 1 FROM device_uses u WHERE u.host_id = a.host_id AND u.device = a.device AND u.vm_id = a.vm_id);

-- name: AllocatedDevices :many
-- The devices that the VM has of its device classes.
SELECT a.class_id, a.host_id, a.device FROM device_uses a JOIN vms v ON v.id = a.vm_id AND v.host_id = a.host_id WHERE a.vm_id = @vm_id ORDER BY a.device;

-- name: DeviceClassesOnHost :many
-- The device classes of a host's devices.
SELECT m.device, c.id, c.name FROM device_class_members m JOIN device_classes c ON c.id = m.class_id WHERE m.host_id = @host_id;
