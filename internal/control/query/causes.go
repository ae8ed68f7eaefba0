package query

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/internal/remedy"
)

// hostProblemTexts holds, for each host phase that needs attention, the text in the Needs attention list. errorText is
// the recorded conflict or the error that the host reports.
var hostProblemTexts = map[fleet.HostPhase]func(errorText string) string{
	fleet.HostConflict: func(errorText string) string { return "A second agent showed this host's identity: " + errorText },
	fleet.HostDegraded: func(errorText string) string {
		return "Its hypervisor does not answer: " + cmp.Or(errorText, fleet.StaleInventoryError)
	},
	fleet.HostUnknown: func(string) string { return "Its agent is offline. Its last report may be outdated." },
}

// expectedOfflineSQL holds for a host whose agent or hypervisor may be offline, because the host is in maintenance. This
// needs no attention.
const expectedOfflineSQL = "COALESCE(h.maintenance ? 'enteredAt', false)"

// firstValuesByHostSQL returns SQL for an array of the column's values of the first hosts by name.
func firstValuesByHostSQL(column string) string {
	return "(array_agg(" + column + " ORDER BY x.name))[1:" + strconv.Itoa(fleet.AttentionNames) + "]"
}

// hostsNeedingAttention returns the rows of the Needs attention list for hosts, one row per cause.
func (b *Queries) hostsNeedingAttention(ctx context.Context, sums hostSums) ([]fleet.AttentionCause, error) {
	if !slices.ContainsFunc(sums.phases, func(x hostPhaseTotals) bool { return hostProblemTexts[x.phase] != nil }) {
		return nil, nil
	}
	sql := "SELECT x.phase, x.words, count(*), " + firstValuesByHostSQL("x.id") + ", " + firstValuesByHostSQL("x.name") + `, CASE WHEN count(*) = 1 THEN min(x.seen_at) END
		FROM (SELECT h.id, h.name, s.seen_at, ` + hostPhaseSQL + ` AS phase,
			CASE ` + hostPhaseSQL + ` WHEN 'conflict' THEN s.conflict WHEN 'degraded' THEN COALESCE(h.status->>'error', '') ELSE '' END AS words
			FROM hosts h JOIN host_sessions s ON s.host_id = h.id WHERE s.conflict <> '' OR NOT ` + expectedOfflineSQL + `) x
		WHERE x.phase IN ('conflict', 'degraded', 'unknown') GROUP BY 1, 2 ORDER BY x.phase = 'unknown', count(*) DESC LIMIT ` + strconv.Itoa(maxAttention)
	return collectRows(ctx, b, sql, new(statementBuilder), func(row pgx.CollectableRow) (fleet.AttentionCause, error) {
		n := fleet.AttentionCause{Kind: string(fleet.TypeHost), HasAlarm: true}
		var phase fleet.HostPhase
		var errorText string
		var ids, names []string
		err := row.Scan(&phase, &errorText, &n.Count, &ids, &names, &n.At)
		if describe := hostProblemTexts[phase]; describe != nil {
			n.Severity, n.Text, n.Remedy, n.Objects, n.List = phase.Severity(), describe(errorText), remedy.ForHost(phase), attentionObjects(ids, names), "/hosts?filter=state:"+string(phase)
		}
		return n, err
	})
}

// evictionAttention returns the rows of the Needs attention list for VMs that a NoExecute taint could not move, one row
// per cause.
func (b *Queries) evictionAttention(ctx context.Context) ([]fleet.AttentionCause, error) {
	var causes attentionCauses
	rows, err := collectRows(ctx, b, `SELECT v.id, v.name, h.id, e.reason FROM vm_evictions e JOIN vms v ON v.id = e.vm_id JOIN hosts h ON h.id = e.host_id
		WHERE e.reason <> '' ORDER BY v.name, v.id LIMIT `+strconv.Itoa(maxAttentionVMsRead), new(statementBuilder), func(row pgx.CollectableRow) (fleet.AttentionCause, error) {
		n := fleet.AttentionCause{Kind: string(fleet.TypeVM), Severity: fleet.SeverityWarn, Count: 1, Objects: make([]fleet.AttentionObject, 1)}
		var host, reason string
		err := row.Scan(&n.Objects[0].ID, &n.Objects[0].Name, &host, &reason)
		n.Text = "A NoExecute taint of its host cannot move it: " + reason
		n.Remedy = "Migrate or shut down the VM, let it tolerate the taint, or remove the taint."
		n.List = fleet.TypeHost.Info().Path + "/" + host
		return n, err
	})
	for _, n := range rows {
		causes.Add(n)
	}
	return causes.Rows, err
}

func attentionObjects(ids, names []string) []fleet.AttentionObject {
	out := make([]fleet.AttentionObject, len(ids))
	for i := range ids {
		out[i] = fleet.AttentionObject{ID: ids[i], Name: names[i]}
	}
	return out
}

// poolAttentionCause is a reason why a pool needs attention, with the number of hosts where it applies.
type poolAttentionCause struct {
	pool      fleet.PoolID
	key       policy.PoolHealthKey
	errorText string // error text from the hosts
	hosts     int
	first     string // name of the first affected host
	at        *time.Time
}

// maxPoolCauses is the maximum number of poolAttentionCauses that are read from the database.
const maxPoolCauses = 500

// poolAttentionCauses returns the reasons why pools need attention, one per pool, kind of problem and error text.
func (b *Queries) poolAttentionCauses(ctx context.Context, pools map[fleet.PoolID][]poolStatusGroup) ([]poolAttentionCause, error) {
	var notable []poolStatusGroup
	var of []string
	for id, groups := range pools {
		for _, g := range groups {
			if g.NeedsAttention() {
				notable, of = append(notable, g), append(of, string(id))
			}
		}
	}
	if len(notable) == 0 {
		return nil, nil
	}
	slices.Sort(of)
	keys := map[policy.PoolHealthKey]poolStatusGroup{}
	for _, g := range notable {
		keys[g.PoolHealthKey] = g
	}
	notable = notable[:0]
	for _, g := range keys {
		notable = append(notable, g)
	}
	var s statementBuilder
	ranks := poolRanksSQL(&s, notable, nil)
	sql := `SELECT x.object_id, x.said, x.fresh, x.used, x.starving, x.by_others, x.faulty, x.error, count(*), min(x.name), CASE WHEN count(*) = 1 THEN min(x.seen_at) END
		FROM (SELECT ` + statusKeySQL + `, a.error, h.name, s.looked_at AS seen_at` + statusesFromSQL + ` JOIN hosts h ON h.id = a.host_id WHERE a.pool_id = ANY (` + s.addKeyArg(slices.Compact(of)) + `::text[])) x
		JOIN ` + ranks + ` GROUP BY 1, 2, 3, 4, 5, 6, 7, 8 ORDER BY min(g.rank), x.object_id, min(x.name) LIMIT ` + strconv.Itoa(maxPoolCauses)
	return collectRows(ctx, b, sql, &s, func(row pgx.CollectableRow) (c poolAttentionCause, err error) {
		var reported fleet.PoolState
		var fresh bool
		err = row.Scan(&c.pool, &reported, &fresh, &c.key.UsedPercent, &c.key.VMsPaused, &c.key.StoppedOutside, &c.key.Faulty, &c.errorText, &c.hosts, &c.first, &c.at)
		c.key.State = fleet.DerivePoolState(reported, fresh)
		return c, err
	})
}

// describeHosts returns the number of affected hosts as text, or the name of the only one. For a pool that is nearly
// full on one host it adds the used percentage.
func (c poolAttentionCause) describeHosts() string {
	switch {
	case c.hosts > 1:
		return "on " + strconv.Itoa(c.hosts) + " hosts"
	case c.key.State == fleet.PoolActive && !c.key.Degraded():
		return fmt.Sprintf("on %s, %d %% used", c.first, c.key.UsedPercent)
	}
	return "on " + c.first
}

// poolAttention returns rows of the Needs attention list for pools. Equal causes of several pools and hosts share one
// row.
func poolAttention(causes []poolAttentionCause, pools map[fleet.PoolID]fleet.PoolView) []fleet.AttentionCause {
	var rows attentionCauses
	type place struct {
		pool fleet.PoolID
		text string
	}
	at, hosts := map[place]int{}, map[place]poolAttentionCause{}
	for _, c := range causes { // causes that differ only in the percentage are merged
		p := place{c.pool, fleet.RedactNames(c.key.CauseText(c.errorText), c.first)}
		if _, known := at[p]; known {
			was := hosts[p]
			was.hosts, was.at = was.hosts+c.hosts, nil
			hosts[p] = was
			continue
		}
		at[p], hosts[p] = len(at), c
	}
	for _, p := range slices.SortedFunc(maps.Keys(at), func(x, y place) int {
		return cmp.Or(cmp.Compare(pools[x.pool].Name, pools[y.pool].Name), at[x]-at[y])
	}) {
		c, pool := hosts[p], pools[p.pool]
		text := p.text
		if c.hosts == 1 {
			text = c.key.CauseText(c.errorText)
		}
		rows.Add(fleet.AttentionCause{
			HasAlarm: true, Kind: string(fleet.TypePool), Severity: c.key.Severity(), Text: text, Remedy: remedy.ForError(fleet.TypePool, pool.Spec.Kind, text), Count: 1, At: c.at,
			Objects: []fleet.AttentionObject{{ID: string(p.pool), Name: pool.Name, Text: c.describeHosts()}}, List: "/pools?filter=health:" + string(pool.Health.Severity),
		})
	}
	return rows.Rows
}

// maxAttentionVMsRead is the maximum number of VMs that are read and grouped by cause. If there are more, another row
// of the Needs attention list says so.
const maxAttentionVMsRead = 500

// vmsNeedingAttention reads VMs on online hosts that need attention. VMs without drift are read separately and come
// first, because many drifted VMs must not hide other causes. more reports whether further VMs without drift exist.
func (b *Queries) vmsNeedingAttention(ctx context.Context, a fleet.Actor) (vms []fleet.VMView, more bool, err error) {
	for _, which := range []string{"v.drifted", "NOT v.drifted"} {
		var s statementBuilder
		s.whereProjectVisible(a, "v.project_id", "")
		s.addCondition("v.attention AND " + which + " AND s.host_id IS NOT NULL AND " + reportsFreshSQL)
		read, err := collectRows(ctx, b, vmLineShape.columns+vmTablesSQL+s.whereClause()+" ORDER BY v.name, v.id LIMIT "+strconv.Itoa(maxAttentionVMsRead), &s, vmLineShape.scan())
		if err != nil {
			return nil, false, err
		}
		more, vms = len(read) == maxAttentionVMsRead, append(read, vms...)
	}
	return vms, more, nil
}

// vmAttentionRows returns rows of the Needs attention list for VMs on online hosts, one row per cause, and the VMs in them. It
// excludes drift: addAttentionFromCounters adds one row for all drifted VMs.
func (b *Queries) vmAttentionRows(ctx context.Context, a fleet.Actor) (rows []fleet.AttentionCause, vms map[fleet.Subject]bool, err error) {
	read, more, err := b.vmsNeedingAttention(ctx, a)
	if err != nil {
		return nil, nil, err
	}
	var causes attentionCauses
	vms = map[fleet.Subject]bool{}
	for _, v := range read {
		host := v.HostName
		tone, text := vmProblem(store.RedactVMForActions(a, v))
		if text == "" {
			continue
		}
		vms[fleet.SubjectVM(v.ID)] = true
		n := fleet.AttentionCause{
			HasAlarm: true, Kind: string(fleet.TypeVM), Severity: tone, Text: text, Count: 1, List: "/vms?filter=attention:yes", Objects: []fleet.AttentionObject{{ID: string(v.ID), Name: v.Name}},
		}
		if store.SeesHosts(a) {
			n.Remedy = remedy.ForError(fleet.TypeVM, "", text)
		} else {
			n.Text = store.RedactText(n.Text, host)
		}
		causes.Add(n)
	}
	if more {
		causes.Rows = append(causes.Rows, fleet.AttentionCause{
			HasAlarm: true, Kind: string(fleet.TypeVM), Severity: fleet.SeverityWarn, List: "/vms?filter=attention:yes",
			Text: fmt.Sprintf("These are the causes of the first %d VMs by name. More need attention.", maxAttentionVMsRead),
		})
	}
	return causes.Rows, vms, nil
}

// vmProblem returns the severity and description of a VM's problem: its first fault, its bad phase, or its failed last
// operation, followed by the hypervisor's error. The text is empty if the VM has no problem except drift.
func vmProblem(v fleet.VMView) (fleet.Severity, string) {
	tone, text := v.Phase.Severity(), v.Phase.DisplayName()
	switch {
	case len(v.Status.Faults) > 0:
		return fleet.SeverityBad, v.Status.Faults[0].Text
	case tone != fleet.SeverityBad && !v.LastTaskFailed():
		return "", ""
	case tone != fleet.SeverityBad:
		tone, text = fleet.SeverityWarn, v.Status.FailureHeading()
	}
	if v.Status.Error != "" {
		text += ": " + v.Status.Error
	}
	return tone, text
}

// attentionCauses groups objects that need attention by cause, one row each.
type attentionCauses struct {
	Rows []fleet.AttentionCause
	at   map[string]int // row index by exact text, and by text without object names
}

// Add merges the row into an existing row of the same kind and severity whose text is equal apart from object names.
func (c *attentionCauses) Add(row fleet.AttentionCause) {
	general := row.Text
	for _, o := range row.Objects {
		general = fleet.RedactNames(general, o.Name, o.ID)
	}
	key := func(text string) string { return row.Kind + "\n" + string(row.Severity) + "\n" + text }
	i, same := c.at[key(row.Text)]
	alike := same
	if !same {
		i, alike = c.at[key(general)]
	}
	if !alike {
		if c.at == nil {
			c.at = map[string]int{}
		}
		c.at[key(row.Text)], c.at[key(general)] = len(c.Rows), len(c.Rows)
		c.Rows = append(c.Rows, row)
		return
	}
	r := &c.Rows[i]
	if r.Count += row.Count; !same {
		r.Text = general
	}
	if room := fleet.AttentionNames - len(r.Objects); room > 0 {
		r.Objects = append(r.Objects, row.Objects[:min(room, len(row.Objects))]...)
	}
}
