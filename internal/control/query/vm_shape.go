package query

import (
	"time"

	"github.com/jackc/pgx/v5"

	"quantix/db"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
)

// vmShape is how much of each VM a list reads.
type vmShape struct {
	columns string
	scan    func() pgx.RowToFunc[fleet.VMView] // for one answer's rows
	most    int                                // VMs of a page
}

// Names and meters are looked up for the rows of the page alone. As joins they would cost more to plan than to read: which
// table to begin with is never in question.
const (
	vmNames = `(SELECT h.name FROM hosts h WHERE h.id = v.host_id) AS host_name, (SELECT p.name FROM projects p WHERE p.id = v.project_id) AS project_name,
		s.looked_at, now()`
	vmLoad = `(SELECT ((m.cpu_nanos[array_position(m.vm_ids, v.id)] - m.before_cpu[array_position(COALESCE(m.before_ids, m.vm_ids), v.id)])
			/ NULLIF(extract(epoch FROM m.at - m.before_at) * 1e7, 0))::real
		FROM host_meters m WHERE m.host_id = v.host_id AND m.at > now() - interval '1 minute') AS cpu_percent`
	vmColumns = `SELECT v.id, v.project_id, v.host_id, v.name, v.labels, v.description, v.spec, v.generation, v.created_at, v.deleted_at,
		v.status, v.observed_generation, v.ordered, v.elsewhere, v.misplaced, ` + expiryColumns + `, ` + vmNames + `, ` + vmLoad + `,
		ARRAY(SELECT n.id || ' ' || n.kind || ' ' || n.name FROM networks n
			WHERE n.id = ANY (ARRAY(SELECT jsonb_path_query(v.spec, '$.nics[*].networkId') #>> '{}'))) AS networks`
	// expiryColumns are what a VM needs attention for and its host does not report.
	expiryColumns = `v.expires_at, v.expiry_stops, v.expiry, v.schedule_trouble`
	vmTables      = ` FROM vms v LEFT JOIN host_sessions s ON s.host_id = v.host_id`

	// inTrouble is true of each VM whose page's word may come from more than rowColumns read of it.
	inTrouble  = `v.attention OR v.elsewhere IS NOT NULL`
	rowColumns = `SELECT v.id, v.project_id, v.host_id, v.name, v.labels, v.description, v.cpus, v.memory_mib, v.generation, v.created_at, v.deleted_at,
		v.observed_generation, v.ordered, v.elsewhere, v.misplaced, CASE WHEN v.status IS NOT NULL THEN COALESCE(v.status->>'power', '') END AS power,
		v.status->'nextBoot' AS next_boot, v.status->'heldBack' AS held_back, jsonb_path_query_array(v.status, '$.nics[*].addresses[*]') AS addresses,
		CASE WHEN ` + inTrouble + ` THEN v.spec END AS spec, CASE WHEN ` + inTrouble + ` THEN v.status END AS status, ` +
		expiryColumns + `, ` + vmNames
)

var (
	// wholeVMs are VMs with all that there is to say of them.
	wholeVMs = vmShape{vmColumns, func() pgx.RowToFunc[fleet.VMView] { return scanVM }, largestPage}
	// vmRows are VMs with what a table's row shows: of the spec the CPUs and the memory, of the status the power, what waits for
	// the next boot, and the addresses. All of both is there where something may be wrong with the VM.
	vmRows = vmShape{rowColumns + ", " + vmLoad, scanVMRows, largestPage}
	// vmLines are vmRows without the load.
	vmLines = vmShape{rowColumns + ", NULL::real AS cpu_percent", scanVMRows, 4 * largestPage}
)

func scanVM(row pgx.CollectableRow) (fleet.VMView, error) {
	var r db.VM
	var host, project string
	var seen *time.Time
	var now time.Time
	var load *float64
	var networks []string
	err := row.Scan(&r.ID, &r.ProjectID, &r.HostID, &r.Name, &r.Labels, &r.Description, &r.Spec, &r.Generation, &r.CreatedAt, &r.DeletedAt,
		&r.Status, &r.ObservedGeneration, &r.Ordered, &r.Elsewhere, &r.Misplaced,
		&r.ExpiresAt, &r.ExpiryStops, &r.Expiry, &r.ScheduleTrouble, &host, &project, &seen, &now, &load, &networks)
	store.NameNetworks(r.Spec.NICs, networks)
	return loaded(store.VMView(r, host, project, seen, now), load), err
}

// loaded is the VM with its load, which only one that runs has.
func loaded(v fleet.VMView, load *float64) fleet.VMView {
	if v.Phase == fleet.PhaseRunning || v.Phase == fleet.PhaseNeedsRestart {
		v.CPUPercent = sinceBefore(load)
	}
	return v
}

// sinceBefore is the load between two meters; nil where the VM has begun anew between them, so that its CPU time fell.
func sinceBefore(load *float64) *float64 {
	if load == nil || *load < 0 {
		return nil
	}
	return load
}
