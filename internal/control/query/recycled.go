package query

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"quantix/internal/bin"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

var recycledByTime = sortOrder[bin.Item]{[]sortColumn{timeColumn("v.recycled_at"), textColumn("v.id")}, func(i bin.Item) []string {
	return []string{formatTime(i.DeletedAt), string(i.ID)}
}}

var recycledByID = sortOrder[bin.Item]{[]sortColumn{textColumn("v.id")}, func(i bin.Item) []string { return []string{string(i.ID)} }}

// recycledFilter are the conditions of fleet.RecycledKeys.
var recycledFilter = listFilter{
	"name":    lowerTextCondition("lower(v.name)"),
	"project": rowNameCondition("v.project_id", "projects"),
	"by":      containsTextCondition("v.recycled_by"),
	"uuid":    lowerTextCondition("v.id"),
	"deleted": dayCondition("v.recycled_at"),
	"purge":   dayCondition("v.purge_at"),
}

var recycledList = list[bin.Item]{
	name: "VM in the recycle bin", see: policy.VMSee, sort: "-deleted", keys: fleet.RecycledKeys, filter: recycledFilter, id: "v.id", read: (*Queries).readRecycled,
	restrict: func(s *statementBuilder, a fleet.Actor, project fleet.ProjectID) {
		s.addCondition("v.recycled_at IS NOT NULL")
		s.whereProjectVisible(a, "v.project_id", project)
	},
	orders: sortOrders[bin.Item]{
		"deleted": recycledByTime,
		"purge":   recycledByID.withFirstColumn(timeColumn("v.purge_at"), func(i bin.Item) string { return formatTime(i.PurgeAt) }),
		"name":    recycledByID.withFirstColumn(textColumn("v.name"), func(i bin.Item) string { return i.Name }),
	},
}

// ListRecycleBin returns one page of the VMs in the recycle bin that the actor sees. Sorts: deleted (default: newest
// first), purge, name.
func (b *Queries) ListRecycleBin(ctx context.Context, a fleet.Actor, q fleet.Query) (fleet.Page[bin.Item], error) {
	page, err := recycledList.readPage(ctx, b, a, q)
	if err == nil {
		errors := make([]*string, len(page.Items))
		for i := range page.Items {
			errors[i] = &page.Items[i].Error
		}
		err = b.store.HidePoolNames(ctx, a, errors...)
	}
	return page, err
}

// GetRecycled returns one VM in the recycle bin.
func (b *Queries) GetRecycled(ctx context.Context, a fleet.Actor, id fleet.VMID) (bin.Item, error) {
	item, err := recycledList.readOne(ctx, b, a, string(id))
	if err == nil {
		err = b.store.HidePoolNames(ctx, a, &item.Error)
	}
	return item, err
}

// The size of a disk without a requested size is the one that its host reported. A failed attempt to power the VM off
// matters while its guest runs.
const recycledSQL = `SELECT v.id, v.name, v.project_id, (SELECT p.name FROM projects p WHERE p.id = v.project_id), v.host_id,
	(SELECT h.name FROM hosts h WHERE h.id = v.host_id), v.recycled_by, v.recycled_at, v.purge_at, v.bin_counted, COALESCE(v.status->>'power', ''),
	(SELECT LEAST(COALESCE(sum(GREATEST(COALESCE(NULLIF((d->>'sizeBytes')::numeric, 0), (
		SELECT (r->>'sizeBytes')::numeric FROM jsonb_path_query(v.status, 'lax $.disks[*]') r
		WHERE r->'volume' = jsonb_build_object('poolId', d->'poolId', 'volume', d->'volume') LIMIT 1), 0), 0)), 0), 1::bigint << 60)::bigint
		FROM jsonb_path_query(v.spec, 'lax $.disks[*]') d),
	(SELECT count(*) FROM jsonb_path_query(v.spec, 'lax $.disks[*]')),
	EXISTS (SELECT 1 FROM jobs j WHERE j.subject = 'vm:' || v.id AND j.kind = 'vm.delete' AND j.state IN ('queued', 'running')),
	EXISTS (SELECT 1 FROM jobs j WHERE j.subject = 'vm:' || v.id AND j.kind = 'vm.recycle' AND j.state IN ('queued', 'running')),
	COALESCE((SELECT CASE WHEN t.state IN ('failed', 'unknown') THEN t.error ELSE '' END FROM tasks t
		WHERE t.subject = 'vm:' || v.id AND (t.kind = 'vm.delete' OR t.kind = 'vm.recycle' AND v.status->>'power' IN ('running', 'paused'))
			AND t.ended_at > v.recycled_at ORDER BY t.id DESC LIMIT 1), ''),
	(SELECT jsonb_agg(e || jsonb_build_object('offline', NOT COALESCE((SELECT is_fresh(o.looked_at, o.fresh_for) FROM host_sessions o WHERE o.host_id = e->>'hostId'), false)))
		FROM jsonb_array_elements(v.elsewhere) e),
	s.looked_at, s.fresh_for, now()
	FROM vms v LEFT JOIN LATERAL (SELECT o.looked_at, o.fresh_for FROM host_sessions o WHERE o.host_id = v.host_id LIMIT 1) s ON true` // the sessions of these VMs' hosts only

func (b *Queries) readRecycled(ctx context.Context, a fleet.Actor, s *statementBuilder, tail string) ([]bin.Item, error) {
	sees := store.SeesHosts(a)
	return collectRows(ctx, b, recycledSQL+s.whereClause()+tail, s, func(row pgx.CollectableRow) (i bin.Item, err error) {
		var power fleet.Power
		var purging, stopping bool
		var others []fleet.Sighting
		var looked *time.Time
		var freshFor *time.Duration
		var now time.Time
		i.Type = "vm"
		err = row.Scan(&i.ID, &i.Name, &i.ProjectID, &i.ProjectName, &i.HostID, &i.HostName, &i.DeletedBy, &i.DeletedAt, &i.PurgeAt, &i.Counted, &power,
			&i.SizeBytes, &i.Disks, &purging, &stopping, &i.Error, &others, &looked, &freshFor, &now)
		if !sees {
			for n := range others {
				others[n].HostName = ""
			}
		}
		i.InUse = fleet.VMView{VM: fleet.VM{Sightings: others}}.WhyDisksInUse()
		i.State = bin.StateOf(power, i.InUse != "", purging, stopping, fleet.IsReportFresh(fleet.NewReportTime(looked, freshFor), now))
		if !sees {
			i.Error = store.RedactText(i.Error, i.HostName)
			i.HostID, i.HostName = "", ""
		}
		return i, err
	})
}
