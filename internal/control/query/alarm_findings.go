package query

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/jackc/pgx/v5"

	"quantix/internal/alarm"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/internal/remedy"
)

// AlarmFinding is an object that meets the condition of an alarm rule. The rule sets its severity.
type AlarmFinding struct {
	alarm.Finding
	Scope alarm.Object
}

// maxAlarmFindings limits the objects that are read per condition.
const maxAlarmFindings = 20000

// HostAlarmFindings returns hosts that are lost, degraded or in conflict, by condition.
func (b *Queries) HostAlarmFindings(ctx context.Context, a fleet.Actor) (map[string][]AlarmFinding, error) {
	if err := store.CheckSystemActor(a); err != nil {
		return nil, err
	}
	sql := "SELECT x.phase, x.words, x.id, x.name, x.cluster_id, x.labels FROM (SELECT h.id, h.name, h.cluster_id, h.labels, " + hostPhaseSQL + ` AS phase,
			CASE ` + hostPhaseSQL + ` WHEN 'conflict' THEN s.conflict WHEN 'degraded' THEN COALESCE(h.status->>'error', '') ELSE '' END AS words
			FROM hosts h JOIN host_sessions s ON s.host_id = h.id WHERE s.conflict <> '' OR NOT ` + expectedOfflineSQL + ` AND NOT ` + poweredOffSQL + `) x
		WHERE x.phase IN ('conflict', 'degraded', 'unknown') ORDER BY x.name LIMIT ` + strconv.Itoa(maxAlarmFindings)
	out := map[string][]AlarmFinding{}
	keys := map[fleet.HostPhase]string{fleet.HostConflict: "host.conflict", fleet.HostDegraded: "host.degraded", fleet.HostUnknown: "host.lost"}
	_, err := collectRows(ctx, b, sql, new(statementBuilder), func(row pgx.CollectableRow) (none struct{}, err error) {
		var phase fleet.HostPhase
		var errorText, id, name string
		var cluster fleet.ClusterID
		var labels map[string]string
		if err := row.Scan(&phase, &errorText, &id, &name, &cluster, &labels); err != nil {
			return none, err
		}
		f := newAlarmFinding(fleet.TypeHost, id, name, hostProblemTexts[phase](errorText), remedy.ForHost(phase), cluster)
		f.Scope.Labels = labels
		out[keys[phase]] = append(out[keys[phase]], f)
		return none, nil
	})
	return out, err
}

// newAlarmFinding returns a finding whose cause is the text without the object's name.
func newAlarmFinding(of fleet.ResourceType, id, name, text, remedyText string, clusters ...fleet.ClusterID) AlarmFinding {
	subject := fleet.SubjectOf(of, id)
	return AlarmFinding{
		Finding: alarm.Finding{
			Key: alarm.Key{Subject: subject, Cause: fleet.RedactNames(text, name, id)}, SubjectName: name, Text: text, Remedy: remedyText, Count: 1,
		},
		Scope: alarm.Object{Subject: subject, Clusters: clusters},
	}
}

// PoolAlarmFindings returns pools that are unhealthy on a host, and the used space of all active pools, by condition. A
// shared pool has one value of its space, the largest that a host reports.
func (b *Queries) PoolAlarmFindings(ctx context.Context, a fleet.Actor) (map[string][]AlarmFinding, error) {
	if err := store.CheckSystemActor(a); err != nil {
		return nil, err
	}
	sql := `SELECT ` + statusKeySQL + `, a.error, h.name, h.cluster_id, p.name, p.spec->>'kind', COALESCE((p.spec->>'shared')::boolean, false)` + statusesFromSQL + `
		JOIN hosts h ON h.id = a.host_id JOIN pools p ON p.id = a.pool_id WHERE a.asked = 'assign' AND p.deleted_at IS NULL AND ` + reportsFreshSQL + ` ORDER BY p.name, h.name LIMIT ` + strconv.Itoa(maxAlarmFindings)
	out := map[string][]AlarmFinding{}
	shared := map[fleet.Subject]int{}
	_, err := collectRows(ctx, b, sql, new(statementBuilder), func(row pgx.CollectableRow) (none struct{}, err error) {
		var id, host, errorText, hostName, name string
		var said fleet.PoolState
		var fresh, isShared bool
		var cluster fleet.ClusterID
		var kind fleet.PoolKind
		var k policy.PoolHealthKey
		if err := row.Scan(&id, &host, &said, &fresh, &k.UsedPercent, &k.VMsPaused, &k.StoppedOutside, &k.Faulty, &errorText, &hostName, &cluster, &name, &kind, &isShared); err != nil {
			return none, err
		}
		k.State = fleet.DerivePoolState(said, fresh)
		on := func(text, cause string) AlarmFinding {
			f := newAlarmFinding(fleet.TypePool, id, name, text, remedy.ForError(fleet.TypePool, kind, errorText), cluster)
			f.HostID, f.Cause = fleet.HostID(host), fleet.RedactNames(cause, name, hostName)
			return f
		}
		if k.State != fleet.PoolActive && k.State != fleet.PoolPending || k.State == fleet.PoolActive && k.Faulty {
			text := k.CauseText(errorText)
			out["pool.unhealthy"] = append(out["pool.unhealthy"], on(text, text))
		}
		if k.State != fleet.PoolActive {
			return none, nil
		}
		f := on(fmt.Sprintf("%d %% of the space is used.", k.UsedPercent), "Much of the space is used.")
		used := float64(k.UsedPercent)
		f.Value, f.Remedy = &used, "Delete volumes or snapshots, move disks to another pool, or enlarge the pool."
		if i, known := shared[f.Subject]; isShared && known {
			if all := out["pool.full"]; used > *all[i].Value {
				all[i].Value, all[i].Text = f.Value, f.Text
			}
			out["pool.full"][i].Scope.Clusters = append(out["pool.full"][i].Scope.Clusters, cluster)
			return none, nil
		}
		if isShared {
			f.HostID, shared[f.Subject] = "", len(out["pool.full"])
		}
		out["pool.full"] = append(out["pool.full"], f)
		return none, nil
	})
	return out, err
}

var networkProblemTexts = map[fleet.NetworkState]string{fleet.NetworkInactive: "Inactive", fleet.NetworkFailed: "Failed"}

// NetworkAlarmFindings returns networks that do not work on a host.
func (b *Queries) NetworkAlarmFindings(ctx context.Context, a fleet.Actor) ([]AlarmFinding, error) {
	if err := store.CheckSystemActor(a); err != nil {
		return nil, err
	}
	sql := `SELECT a.object_id, a.host_id, COALESCE(a.said, ''), a.error, h.name, h.cluster_id, n.name FROM assignments a JOIN host_sessions s ON s.host_id = a.host_id
		JOIN hosts h ON h.id = a.host_id JOIN networks n ON n.id = a.network_id
		WHERE a.asked = 'assign' AND n.deleted_at IS NULL AND (a.said IN ('inactive', 'failed') OR a.error <> '') AND ` + reportsFreshSQL + ` ORDER BY n.name, h.name LIMIT ` + strconv.Itoa(maxAlarmFindings)
	return collectRows(ctx, b, sql, new(statementBuilder), func(row pgx.CollectableRow) (f AlarmFinding, err error) {
		var id, host, errorText, hostName, name string
		var said fleet.NetworkState
		var cluster fleet.ClusterID
		err = row.Scan(&id, &host, &said, &errorText, &hostName, &cluster, &name)
		text := cmp.Or(networkProblemTexts[said], "Faulty")
		if errorText != "" {
			text += ": " + errorText
		}
		f = newAlarmFinding(fleet.TypeNetwork, id, name, text, remedy.ForError(fleet.TypeNetwork, "", errorText), cluster)
		f.HostID, f.Cause = fleet.HostID(host), fleet.RedactNames(text, name, hostName)
		return f, err
	})
}

// VMAlarmFindings returns VMs with a fault or a bad phase on online hosts, by condition. A failed task is no fault.
func (b *Queries) VMAlarmFindings(ctx context.Context, a fleet.Actor) (map[string][]AlarmFinding, error) {
	if err := store.CheckSystemActor(a); err != nil {
		return nil, err
	}
	var s statementBuilder
	s.addCondition("v.attention AND s.host_id IS NOT NULL AND " + reportsFreshSQL)
	type finding struct {
		AlarmFinding
		condition string // empty: the VM has no fault
		host      fleet.HostID
	}
	scan := vmLineShape.scan()
	// A row becomes a finding at once, because a VM is large.
	all, err := collectRows(ctx, b, vmLineShape.columns+vmTablesSQL+s.whereClause()+" ORDER BY v.name, v.id LIMIT "+strconv.Itoa(maxAlarmFindings), &s, func(row pgx.CollectableRow) (f finding, err error) {
		v, err := scan(row)
		if err == nil {
			f.AlarmFinding, f.condition = vmAlarmFinding(v)
			f.host = v.HostID
		}
		return f, err
	})
	if err != nil || len(all) == 0 {
		return nil, err
	}
	hosts := map[fleet.HostID]bool{}
	for _, f := range all {
		hosts[f.host] = true
	}
	clusters, err := b.clustersOfHosts(ctx, hosts)
	if err != nil {
		return nil, err
	}
	out := map[string][]AlarmFinding{}
	for _, f := range all {
		if f.condition != "" {
			f.Scope.Clusters = []fleet.ClusterID{clusters[f.host]}
			out[f.condition] = append(out[f.condition], f.AlarmFinding)
		}
	}
	return out, nil
}

// vmAlarmFinding returns the VM's fault and its condition; an empty condition: the VM has none.
func vmAlarmFinding(v fleet.VMView) (f AlarmFinding, condition string) {
	severity, text := vmProblem(v)
	condition = "vm.fault"
	switch {
	case len(v.Status.Faults) == 0 && severity != fleet.SeverityBad, text == "":
		return f, ""
	case slices.ContainsFunc(v.Status.Faults, func(f fleet.Fault) bool { return f.Code == fleet.FaultIO }):
		condition = "vm.io"
	case slices.ContainsFunc(v.Status.Faults, func(f fleet.Fault) bool { return f.Code == fleet.FaultDisk }):
		condition = "vm.disk"
	case len(v.Status.Faults) > 0 && !slices.ContainsFunc(v.Status.Faults, func(f fleet.Fault) bool { return f.Code != fleet.FaultExpiry }):
		condition = "vm.expiry"
	}
	f = newAlarmFinding(fleet.TypeVM, string(v.ID), v.Name, text, remedy.ForError(fleet.TypeVM, "", text))
	if condition == "vm.expiry" {
		f.Remedy = "Renew the VM, or delete it."
	}
	f.Cause = fleet.RedactNames(f.Cause, v.HostName)
	_, plain := vmProblem(store.RedactVMForActions(fleet.Actor{}, v))
	f.Plain = fleet.RedactNames(store.RedactText(cmp.Or(plain, "The VM has a fault on its host. Ask an administrator."), v.HostName), v.Name)
	project := v.ProjectID // a pointer into the VM would keep all of it
	f.ProjectID, f.Scope.ProjectID, f.Scope.Labels = &project, &project, v.Labels
	return f, condition
}

func (b *Queries) clustersOfHosts(ctx context.Context, hosts map[fleet.HostID]bool) (map[fleet.HostID]fleet.ClusterID, error) {
	ids := make([]string, 0, len(hosts))
	for h := range hosts {
		ids = append(ids, string(h))
	}
	out := map[fleet.HostID]fleet.ClusterID{}
	var s statementBuilder
	s.addCondition("h.id = ANY (" + s.addKeyArg(ids) + "::text[])")
	_, err := collectRows(ctx, b, "SELECT h.id, h.cluster_id FROM hosts h"+s.whereClause(), &s, func(row pgx.CollectableRow) (none struct{}, err error) {
		var h fleet.HostID
		var c fleet.ClusterID
		err = row.Scan(&h, &c)
		out[h] = c
		return none, err
	})
	return out, err
}
