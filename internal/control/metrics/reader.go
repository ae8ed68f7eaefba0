package metrics

import (
	"context"
	"slices"
	"time"

	"quantix/db"
	"quantix/internal/fleet"
	"quantix/internal/timeseries"
)

// Range is the time of a chart.
type Range struct {
	From, To time.Time
	Step     time.Duration // distance of the points; 0: one that makes about defaultPoints points
	PerHost  bool          // the values of each host are points of their own
	// Hosts are the only hosts whose values are read; empty: all hosts that have measured the object.
	Hosts []string
}

// Limits of points per metric.
const (
	defaultPoints = 400
	maxPoints     = 2000
)

// sampleStep is the finest distance of points.
const sampleStep = fleet.DefaultReportInterval * time.Second

// niceSteps are the distances of points that Read chooses from.
var niceSteps = []time.Duration{
	sampleStep, 20 * time.Second, 30 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 20 * time.Minute,
	30 * time.Minute, time.Hour, 2 * time.Hour, 4 * time.Hour, 6 * time.Hour, 12 * time.Hour, 24 * time.Hour, 48 * time.Hour,
}

// fit returns the range with a step that has values: one that yields a bearable number of points, and for which values
// of that age are still kept. From and To become multiples of the step.
func (r Range) fit(now time.Time, kept Retention) Range {
	want := r.Step
	if want == 0 {
		want = r.To.Sub(r.From) / defaultPoints
	}
	want = max(want, r.To.Sub(r.From)/maxPoints)
	if r.Step == 0 || want > r.Step {
		i := slices.IndexFunc(niceSteps, func(s time.Duration) bool { return s >= want })
		want = niceSteps[max(0, i)]
		if i < 0 {
			want = niceSteps[len(niceSteps)-1]
		}
	}
	want = max(want, sampleStep)
	for _, t := range tiers {
		if now.Sub(r.From) > kept.of(t.number-1) {
			want = max(want, t.step)
		}
	}
	r.Step = want
	r.From, r.To = r.From.UTC().Truncate(want), r.To.UTC().Add(want-1).Truncate(want)
	return r
}

// source returns the coarsest tier whose points are not coarser than the step; nil: the samples.
func (r Range) source() *tier {
	for i, t := range slices.Backward(tiers) {
		if t.step <= r.Step {
			return &tiers[i]
		}
	}
	return nil
}

// points returns the number of points.
func (r Range) points() int { return int(r.To.Sub(r.From) / r.Step) }

// Read returns the points of an object over a time, by host if the range is per host, else with an empty host. The
// object's samples are on the given hosts. The returned Range has the step and the time of the points.
func Read(ctx context.Context, q *db.Queries, o timeseries.Object, hosts []string, r Range, now time.Time, kept Retention, damage *DamageLog) (Range, map[fleet.HostID]map[int][]timeseries.Point, error) {
	r = r.fit(now, kept)
	all := map[fleet.HostID]*timeseries.Buckets{}
	buckets := func(host fleet.HostID) *timeseries.Buckets {
		if !r.PerHost {
			host = ""
		}
		if all[host] == nil {
			all[host] = timeseries.NewBuckets(r.From, r.Step, r.points())
		}
		return all[host]
	}
	from := r.From
	if source := r.source(); source != nil {
		var err error
		if from, err = readChunks(ctx, q, o, r, source.number, now, damage, buckets); err != nil {
			return r, nil, err
		}
	}
	if from.Before(r.To) {
		err := readSamples(ctx, q, hosts, from, r.To.Add(maxSampleSeconds*time.Second), func(of timeseries.Object) bool { return of == o }, damage, func(s sample) {
			if begin := s.at.Add(-s.over); begin.Before(from) {
				s.over = s.at.Sub(from) // a chunk has the rest
			}
			s.addTo(buckets(s.host))
		})
		if err != nil {
			return r, nil, err
		}
	}
	out := make(map[fleet.HostID]map[int][]timeseries.Point, len(all))
	for host, b := range all {
		out[host] = b.Points()
	}
	return r, out, nil
}

// readChunks adds the points of the chunks of a tier, and after its last complete period those of the finer tiers. It
// returns the end of the complete hours, after which only samples have values.
func readChunks(ctx context.Context, q *db.Queries, o timeseries.Object, r Range, coarsest int16, now time.Time, damage *DamageLog, buckets func(fleet.HostID) *timeseries.Buckets) (time.Time, error) {
	from := r.From
	for _, t := range slices.Backward(tiers[:coarsest]) {
		end, err := completeUntil(ctx, q, t, from, now)
		if err != nil {
			return from, err
		}
		begin := t.begin(from)
		if !end.After(begin) {
			continue
		}
		rows, err := q.MetricChunksOf(ctx, db.MetricChunksOfParams{Tier: t.number, Type: string(o.Type), ObjectID: o.ID, FromTime: begin, ToTime: earlier(end, r.To), HostIds: r.Hosts})
		if err != nil {
			return from, err
		}
		for _, c := range rows {
			addPoints(buckets(c.HostID), o, t, c.Start, c.Chunk, damage)
		}
		if from = end; !from.Before(r.To) {
			break
		}
	}
	return from, nil
}

// completeUntil returns the end of the tier's newest complete period, at least from.
func completeUntil(ctx context.Context, q *db.Queries, t tier, from, now time.Time) (time.Time, error) {
	rows, err := q.MetricPeriods(ctx, db.MetricPeriodsParams{Tier: t.number, FromTime: t.begin(now.Add(-t.search))})
	end := from
	for _, p := range rows {
		if until := t.end(p.Start); p.Complete && until.After(end) {
			end = until
		}
	}
	return end, err
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
