package query

import (
	"cmp"
	"context"
	"slices"
	"strconv"

	"github.com/jackc/pgx/v5"

	"quantix/internal/control/store"
	"quantix/internal/filter"
	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/internal/remedy"
)

// driftedStatusSQL selects assignments (alias a) of online hosts (alias s) with drift that nobody ignores.
var driftedStatusSQL = " FROM assignments a JOIN host_sessions s ON s.host_id = a.host_id WHERE a.changed AND a.drifted AND a.asked = 'assign' AND " + reportsFreshSQL

// driftedHosts counts the online hosts with open drift of each object. It returns none for actors who cannot see hosts.
func (b *Queries) driftedHosts(ctx context.Context, a fleet.Actor, column string, ids []string) (map[string]int, error) {
	if !store.SeesHosts(a) || len(ids) == 0 {
		return nil, nil
	}
	var s statementBuilder
	out := map[string]int{}
	_, err := collectRows(ctx, b, "SELECT a.object_id, count(*)"+driftedStatusSQL+" AND "+column+" = ANY ("+s.addKeyArg(ids)+"::text[]) GROUP BY 1", &s,
		func(row pgx.CollectableRow) (none struct{}, err error) {
			var id string
			var hosts int
			err = row.Scan(&id, &hosts)
			out[id] = hosts
			return none, err
		})
	return out, err
}

// driftedOnHost returns the condition of a filter term on whether an online host has open drift of a pool or network.
// column is the column of assignments that refers to the object, and id is the SQL of the object's ID. For actors who
// cannot see hosts no object has drift.
func driftedOnHost(column, id string) filterCondition {
	return func(f filterScope, t filter.Term) error {
		condition := "false"
		if store.SeesHosts(f.actor) {
			condition = "EXISTS (SELECT 1" + driftedStatusSQL + " AND a." + column + " = " + id + ")"
		}
		return yesNoCondition(condition)(f, t)
	}
}

// driftAttention returns the rows of the Needs attention list for drift of pools and networks, one row per type.
func (b *Queries) driftAttention(ctx context.Context) ([]fleet.AttentionCause, error) {
	sql := `SELECT o.noun, count(*), ` + firstOfDriftedSQL("o.object_id") + `, ` + firstOfDriftedSQL("COALESCE(p.name, n.name)") + `
		FROM (SELECT DISTINCT a.noun, a.object_id, a.pool_id, a.network_id` + driftedStatusSQL + `) o
		LEFT JOIN pools p ON p.id = o.pool_id LEFT JOIN networks n ON n.id = o.network_id WHERE COALESCE(p.name, n.name) IS NOT NULL GROUP BY 1 ORDER BY 1 DESC`
	return collectRows(ctx, b, sql, new(statementBuilder), func(row pgx.CollectableRow) (fleet.AttentionCause, error) {
		var noun string
		var ids, names []string
		n := fleet.AttentionCause{HasAlarm: true, Severity: fleet.SeverityWarn, Remedy: remedy.HostDrift}
		err := row.Scan(&noun, &n.Count, &ids, &names)
		info := fleet.ResourceType(noun).Info()
		n.Kind, n.Objects, n.List = noun, attentionObjects(ids, names), info.Path+"?filter=drift:yes"
		n.Text = "Changed on a host: the definition there differs from that of the " + info.Label + " (drift)."
		return n, err
	})
}

// firstOfDriftedSQL returns SQL for an array of the expression's values of the first drifted objects by name.
func firstOfDriftedSQL(expression string) string {
	return "(array_agg(" + expression + " ORDER BY COALESCE(p.name, n.name)))[1:" + strconv.Itoa(fleet.AttentionNames) + "]"
}

// MaxDriftedHosts is the maximum number of hosts whose drift of one object a page shows.
const MaxDriftedHosts = 25

// driftedStatuses returns the host statuses of an object with drift, ignored or not, sorted by host name: those of the
// first MaxDriftedHosts hosts. The drift of an offline host is that of its last report.
func (k *statusKind[ID, G, H]) driftedStatuses(ctx context.Context, a fleet.Actor, id ID, nameOf func(H) string) ([]H, error) {
	if err := policy.Check(a, policy.InfraSee, ""); err != nil {
		return nil, err
	}
	if err := store.CheckID(id, k.typ.Info().Label); err != nil {
		return nil, err
	}
	var s, of statementBuilder
	hosts, err := collectRows(ctx, k.b, "SELECT a.host_id FROM assignments a JOIN hosts h ON h.id = a.host_id WHERE a.changed AND a.noun = "+s.addKeyArg(string(k.typ))+
		" AND a.object_id = "+s.addKeyArg(string(id))+" AND a.asked = 'assign' ORDER BY h.name, h.id LIMIT "+strconv.Itoa(MaxDriftedHosts), &s, pgx.RowTo[string])
	if err != nil || len(hosts) == 0 {
		return nil, err
	}
	of.addCondition(k.column + " = " + of.addKeyArg(string(id)) + " AND a.host_id = ANY (" + of.addKeyArg(hosts) + "::text[])")
	statuses, err := k.read(ctx, of)
	slices.SortFunc(statuses, func(x, y H) int { return cmp.Compare(nameOf(x), nameOf(y)) })
	return statuses, err
}

// PoolDrift returns the statuses of a pool on the first hosts with another definition of it.
func (b *Queries) PoolDrift(ctx context.Context, a fleet.Actor, id fleet.PoolID) ([]fleet.PoolHost, error) {
	return b.poolStatuses.driftedStatuses(ctx, a, id, func(h fleet.PoolHost) string { return h.HostName })
}

// NetworkDrift returns the statuses of a network on the first hosts with another definition of it.
func (b *Queries) NetworkDrift(ctx context.Context, a fleet.Actor, id fleet.NetworkID) ([]fleet.NetworkHost, error) {
	return b.networkStatuses.driftedStatuses(ctx, a, id, func(h fleet.NetworkHost) string { return h.HostName })
}
