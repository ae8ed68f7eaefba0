package query

import (
	"time"

	"github.com/jackc/pgx/v5"

	"quantix/db"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
)

// vmShape defines the columns of VMs that a list reads.
type vmShape struct {
	columns string
	scan    func() pgx.RowToFunc[fleet.VMView] // returns a scanner for the rows of one result
	maxVMs  int                                // maximum number of VMs in a page
}

// Names and meters are subqueries, which PostgreSQL evaluates only for the rows of the page. Joins would take longer to
// plan than to execute.
const (
	vmNamesSQL = `(SELECT h.name FROM hosts h WHERE h.id = v.host_id) AS host_name, (SELECT p.name FROM projects p WHERE p.id = v.project_id) AS project_name,
		s.looked_at, s.fresh_for, (SELECT maintenance_state(h.maintained, s.seen_at, s.fresh_for, s.powered_off_at) FROM hosts h WHERE h.id = v.host_id) AS host_maintenance, now()`
	vmLoadSQL = `(SELECT ((m.cpu_nanos[array_position(m.vm_ids, v.id)] - m.before_cpu[array_position(COALESCE(m.before_ids, m.vm_ids), v.id)])
			/ NULLIF(extract(epoch FROM m.at - m.before_at) * 1e7, 0))::real
		FROM host_meters m WHERE m.host_id = v.host_id AND m.at > now() - 2 * s.fresh_for) AS cpu_percent`
	vmColumnsSQL = `SELECT v.id, v.project_id, v.host_id, v.name, v.labels, v.description, v.spec, v.generation, v.created_at, v.deleted_at,
		v.status, v.observed_generation, v.ordered, v.elsewhere, v.misplaced, ` + ignoredDriftSQL + `, ` + expiryAndScheduleColumnsSQL + `, ` + vmNamesSQL + `, ` + vmLoadSQL + `,
		ARRAY(SELECT n.id || ' ' || n.kind || ' ' || n.name FROM networks n
			WHERE n.id = ANY (ARRAY(SELECT jsonb_path_query(v.spec, '$.nics[*].networkId') #>> '{}'))) AS networks`
	// expiryAndScheduleColumnsSQL are the columns of two problems that the portal detects without the host: the VM's
	// expiry and a failed snapshot schedule.
	expiryAndScheduleColumnsSQL = `v.expires_at, v.expiry_stops, v.expiry, v.schedule_trouble`
	vmTablesSQL                 = ` FROM vms v LEFT JOIN host_sessions s ON s.host_id = v.host_id`

	// ignoredDriftSQL is the ignored drift, which few VMs have.
	ignoredDriftSQL = `NULLIF(v.ignored_drift, '[]')`
	// needsFullRowSQL is the condition that the VM's displayed phase may depend on its complete spec and status.
	needsFullRowSQL = `v.attention OR v.elsewhere IS NOT NULL`
	vmRowColumnsSQL = `SELECT v.id, v.project_id, v.host_id, v.name, v.labels, v.description, v.cpus, v.memory_mib, v.generation, v.created_at, v.deleted_at,
		v.observed_generation, v.ordered, v.elsewhere, v.misplaced, CASE WHEN v.status IS NOT NULL THEN COALESCE(v.status->>'power', '') END AS power,
		v.status->'nextBoot' AS next_boot, v.status->'pendingUnplug' AS held_back, jsonb_path_query_array(v.status, '$.nics[*].addresses[*]') AS addresses,
		CASE WHEN ` + needsFullRowSQL + ` THEN v.spec END AS spec, CASE WHEN ` + needsFullRowSQL + ` THEN v.status END AS status, ` +
		ignoredDriftSQL + `, ` + expiryAndScheduleColumnsSQL + `, ` + vmNamesSQL
)

var (
	// fullVMShape reads complete VMs.
	fullVMShape = vmShape{vmColumnsSQL, func() pgx.RowToFunc[fleet.VMView] { return scanVM }, maxPageSize}
	// vmRowShape reads the values that a table row shows: see ListVMRows.
	vmRowShape = vmShape{vmRowColumnsSQL + ", " + vmLoadSQL, scanVMRows, maxPageSize}
	// vmLineShape is vmRowShape without CPU load.
	vmLineShape = vmShape{vmRowColumnsSQL + ", NULL::real AS cpu_percent", scanVMRows, 4 * maxPageSize}
)

func scanVM(row pgx.CollectableRow) (fleet.VMView, error) {
	var r db.VM
	var host, project string
	var m fleet.MaintenanceState
	var seen *time.Time
	var freshFor *time.Duration
	var now time.Time
	var load *float64
	var networks []string
	err := row.Scan(&r.ID, &r.ProjectID, &r.HostID, &r.Name, &r.Labels, &r.Description, &r.Spec, &r.Generation, &r.CreatedAt, &r.DeletedAt,
		&r.Status, &r.ObservedGeneration, &r.Ordered, &r.Elsewhere, &r.Misplaced, &r.IgnoredDrift,
		&r.ExpiresAt, &r.ExpiryStops, &r.Expiry, &r.ScheduleTrouble, &host, &project, &seen, &freshFor, &m, &now, &load, &networks)
	store.FillNetworkNames(r.Spec.NICs, networks)
	return withCPULoad(store.VMView(r, host, project, fleet.NewReportTime(seen, freshFor), m, now), load), err
}

// withCPULoad returns the VM with its CPU load, which only a running VM has.
func withCPULoad(v fleet.VMView, load *float64) fleet.VMView {
	if v.Phase == fleet.PhaseRunning || v.Phase == fleet.PhaseNeedsRestart {
		v.CPUPercent = cpuLoadOrNil(load)
	}
	return v
}

// cpuLoadOrNil returns the CPU load between two meter readings, or nil if it is negative because the VM restarted
// between them.
func cpuLoadOrNil(load *float64) *float64 {
	if load == nil || *load < 0 {
		return nil
	}
	return load
}
