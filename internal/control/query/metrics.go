package query

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"quantix/db"
	"quantix/internal/control/metrics"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/internal/timeseries"
	"quantix/internal/usage"
)

// MetricRange is a requested time of metrics. The zero value is the last hour.
type MetricRange struct {
	From, To time.Time
	Step     time.Duration // 0: chosen by the time
}

// maxMetricAge is the longest time of a request.
const maxMetricAge = 10 * 366 * 24 * time.Hour

func (r MetricRange) withDefaults(now time.Time) (metrics.Range, error) {
	if r.To.IsZero() || r.To.After(now) {
		r.To = now
	}
	if r.From.IsZero() {
		r.From = r.To.Add(-time.Hour)
	}
	var c fleet.Checks
	switch {
	case !r.From.Before(r.To):
		c.Add("from", "The time begins after its end, or in the future.")
	case now.Sub(r.From) > maxMetricAge:
		c.Add("from", "Give a time of the last ten years.")
	}
	if r.Step < 0 {
		c.Add("step", "Give a number of seconds, or nothing.")
	}
	return metrics.Range{From: r.From, To: r.To, Step: r.Step}, c.Err()
}

// VMMetrics returns the metrics of a VM. Actors who see all projects get those of a deleted VM until their age is over,
// without its last hour, whose samples are found by the VM's host.
func (b *Queries) VMMetrics(ctx context.Context, a fleet.Actor, id fleet.VMID, r MetricRange) (fleet.MetricSeries, error) {
	_, missing := b.GetVM(ctx, a, id)
	if missing != nil && (fleet.CodeOf(missing) != fleet.NotFound || !policy.SeesAllProjects(a)) {
		return fleet.MetricSeries{}, missing
	}
	out, err := b.readMetrics(ctx, timeseries.Object{Type: fleet.TypeVM, ID: string(id)}, r, false, func(now time.Time) ([]string, error) {
		return b.store.HostsOfVM(ctx, db.HostsOfVMParams{VMID: id, FromTime: now.Add(-2 * b.metricRetention.Samples)})
	})
	if err == nil && len(out.Series) == 0 && missing != nil {
		return fleet.MetricSeries{}, missing
	}
	if err == nil {
		err = b.addTaskMarks(ctx, a, fleet.SubjectVM(id), &out)
	}
	return out, err
}

// HostMetrics returns the metrics of a host.
func (b *Queries) HostMetrics(ctx context.Context, a fleet.Actor, id fleet.HostID, r MetricRange) (fleet.MetricSeries, error) {
	if _, err := b.GetHost(ctx, a, id); err != nil {
		return fleet.MetricSeries{}, err
	}
	problem, err := b.store.MetricRefusal(ctx, id)
	if err != nil {
		return fleet.MetricSeries{}, store.UserError(err)
	}
	out, err := b.readMetrics(ctx, timeseries.Object{Type: fleet.TypeHost, ID: string(id)}, r, false, func(time.Time) ([]string, error) { return []string{string(id)}, nil })
	out.Problem = problem
	if err == nil {
		err = b.addHostMarks(ctx, a, id, &out)
	}
	return out, err
}

// ClusterMetrics returns the sums over the hosts of a cluster.
func (b *Queries) ClusterMetrics(ctx context.Context, a fleet.Actor, id fleet.ClusterID, r MetricRange) (fleet.MetricSeries, error) {
	if err := policy.Check(a, policy.InfraSee, ""); err != nil {
		return fleet.MetricSeries{}, err
	}
	if _, err := b.ClusterBrief(ctx, a, id); err != nil {
		return fleet.MetricSeries{}, err
	}
	return b.readMetrics(ctx, timeseries.Object{Type: fleet.TypeCluster, ID: string(id)}, r, false, sumSource)
}

// FleetMetrics returns the sums over all hosts.
func (b *Queries) FleetMetrics(ctx context.Context, a fleet.Actor, r MetricRange) (fleet.MetricSeries, error) {
	if err := policy.Check(a, policy.InfraSee, ""); err != nil {
		return fleet.MetricSeries{}, err
	}
	return b.readMetrics(ctx, metrics.FleetSums, r, false, sumSource)
}

func sumSource(time.Time) ([]string, error) { return []string{metrics.SumSource}, nil }

// PoolMetrics returns the metrics of a pool on its first hosts. A local pool has its own metrics on each host.
func (b *Queries) PoolMetrics(ctx context.Context, a fleet.Actor, id fleet.PoolID, r MetricRange) (fleet.MetricSeries, error) {
	if err := policy.Check(a, policy.InfraSee, ""); err != nil { // the metrics name the hosts
		return fleet.MetricSeries{}, err
	}
	pool, err := b.GetPool(ctx, a, id)
	if err != nil {
		return fleet.MetricSeries{}, err
	}
	names, ids := map[fleet.HostID]string{}, []string{}
	for _, h := range pool.Hosts {
		names[h.HostID], ids = h.HostName, append(ids, string(h.HostID))
	}
	out, err := b.readMetrics(ctx, timeseries.Object{Type: fleet.TypePool, ID: string(id)}, r, !pool.Spec.Shared, func(time.Time) ([]string, error) { return ids, nil })
	for i := range out.Series {
		host := fleet.HostID(out.Series[i].HostName)
		out.Series[i].HostName = cmp.Or(names[host], string(host))
	}
	if err == nil {
		err = b.addTaskMarks(ctx, a, fleet.SubjectPool(id), &out)
	}
	return out, err
}

// PoolGrowth returns the newest prediction when a pool will be full, or nil.
func (b *Queries) PoolGrowth(ctx context.Context, a fleet.Actor, id fleet.PoolID) (*usage.PoolGrowth, error) {
	if err := policy.Check(a, policy.InfraSee, ""); err != nil {
		return nil, err
	}
	r, err := b.store.PoolGrowth(ctx, id)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, store.UserError(err)
	}
	out := &usage.PoolGrowth{Growth: usage.Growth(r.Growth), Hosts: int(r.Hosts), Days: int(r.Days), PredictedAt: r.PredictedAt, Fresh: r.Fresh}
	if r.FullAt != nil {
		out.FullAt = *r.FullAt
	}
	if r.Shared {
		out.Hosts = 1
	}
	if out.Hosts > 1 {
		out.HostName = r.HostName
	}
	return out, nil
}

// readMetrics returns the metrics of an object. HostName is the host's ID where the metrics are those of a host.
func (b *Queries) readMetrics(ctx context.Context, o timeseries.Object, in MetricRange, perHost bool, hosts func(now time.Time) ([]string, error)) (fleet.MetricSeries, error) {
	now := time.Now()
	r, err := in.withDefaults(now)
	if err != nil {
		return fleet.MetricSeries{}, err
	}
	r.PerHost = perHost
	on, err := hosts(now)
	if err != nil {
		return fleet.MetricSeries{}, store.UserError(err)
	}
	if o.Type == fleet.TypePool {
		if r.Hosts = on; len(on) == 0 {
			return fleet.MetricSeries{From: r.From, To: r.To, Series: []fleet.MetricLine{}}, nil
		}
	}
	r, found, err := metrics.Read(ctx, b.store.Queries, o, on, r, now, b.metricRetention, b.damagedMetrics)
	if err != nil {
		return fleet.MetricSeries{}, store.UserError(err)
	}
	out := fleet.MetricSeries{From: r.From, To: r.To, StepSeconds: int(r.Step.Seconds()), Series: []fleet.MetricLine{}}
	for host, points := range found {
		for _, m := range fleet.MetricsOf(o.Type) {
			if all := points[m.Number]; all != nil {
				out.Series = append(out.Series, fleet.MetricLine{
					Name: m.Name, Title: m.Title, Unit: m.Unit, Chart: m.Chart, HostName: string(host), Points: metricPoints(r, m.Unit, all),
				})
			}
		}
	}
	slices.SortStableFunc(out.Series, func(x, y fleet.MetricLine) int { return cmp.Compare(x.HostName, y.HostName) })
	return out, nil
}

func metricPoints(r metrics.Range, unit fleet.MetricUnit, all []timeseries.Point) []fleet.MetricPoint {
	of := func(v float64) fleet.MetricValue {
		if n := math.Round(v); unit == fleet.UnitQuantity && math.Abs(v-n) <= maxCountError*n {
			return fleet.MetricValue(n)
		}
		return fleet.MetricValue(v)
	}
	out := make([]fleet.MetricPoint, len(all))
	for i, p := range all {
		out[i] = fleet.MetricPoint{At: r.From.Add(time.Duration(i) * r.Step), Mean: of(p.Mean), Min: of(p.Min), Max: of(p.Max)}
	}
	return out
}

// maxCountError is the error of stored counts, relative to the count.
const maxCountError = 4e-4

// hostMarkKinds are the kinds of tasks that a host's charts mark.
var hostMarkKinds = []string{string(fleet.HostMaintenanceEnter), string(fleet.HostMaintenanceLeave), string(fleet.HostReboot), string(fleet.HostShutdown)}

// addTaskMarks adds the tasks of a VM or pool that the actor sees.
func (b *Queries) addTaskMarks(ctx context.Context, a fleet.Actor, of fleet.Subject, to *fleet.MetricSeries) error {
	if !policy.May(a, policy.TasksSee, "") {
		return nil
	}
	rows, err := b.store.TaskMarks(ctx, db.TaskMarksParams{
		Subject: of, FromTime: to.From, ToTime: to.To, AllProjects: policy.SeesAllProjects(a), Projects: store.VisibleProjects(a), MaxRows: fleet.MaxMetricMarks,
	})
	if err != nil {
		return store.UserError(err)
	}
	for _, r := range slices.Backward(rows) {
		addMark(to, r)
	}
	return nil
}

// addHostMarks adds the maintenance of a host, its power actions and its offline periods.
func (b *Queries) addHostMarks(ctx context.Context, a fleet.Actor, id fleet.HostID, to *fleet.MetricSeries) error {
	if policy.Check(a, policy.TasksSee, "") == nil {
		rows, err := b.store.HostTaskMarks(ctx, db.HostTaskMarksParams{Kinds: hostMarkKinds, HostID: &id, FromTime: to.From, ToTime: to.To, MaxRows: fleet.MaxMetricMarks})
		if err != nil {
			return store.UserError(err)
		}
		for _, r := range slices.Backward(rows) {
			addMark(to, db.TaskMarksRow(r))
		}
	}
	offline, err := b.store.HostOfflinePeriods(ctx, db.HostOfflinePeriodsParams{Hosts: []string{string(id)}, Since: to.From})
	for _, p := range offline {
		if p.Since.Before(to.To) {
			to.Marks = append(to.Marks, fleet.MetricMark{At: p.Since, Until: &p.Until, Title: "Agent offline"})
		}
	}
	slices.SortStableFunc(to.Marks, func(x, y fleet.MetricMark) int { return x.At.Compare(y.At) })
	return store.UserError(err)
}

// addMark adds a task that has begun or ended. Consoles and other background tasks are no marks.
func addMark(to *fleet.MetricSeries, r db.TaskMarksRow) {
	at, kind := r.StartedAt, r.Kind.Info()
	switch {
	case kind.Background:
		return
	case kind.OnlyParent:
		at = &r.CreatedAt
	case at == nil && r.EndedAt != nil: // no host received it
		at = r.EndedAt
	case at == nil:
		return
	}
	title := fleet.Task{Kind: r.Kind, Generation: r.Generation}.Title()
	to.Marks = append(to.Marks, fleet.MetricMark{At: *at, Until: r.EndedAt, Title: title, TaskID: r.ID, State: r.State})
}
