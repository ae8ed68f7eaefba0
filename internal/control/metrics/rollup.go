package metrics

import (
	"context"
	"time"

	"quantix/db"
	"quantix/internal/fleet"
	"quantix/internal/timeseries"
)

// settleTime is how long after its end a period is summarized, so that transactions with its last samples have ended.
const settleTime = 90 * time.Second

// objectsPerStep limits the objects whose points one step summarizes.
const objectsPerStep = 200

// RollUp writes the chunks of one host in an hour, or of some objects in a day or a month, of the oldest period that has
// passed and is not complete. It returns false if all periods are complete. A repeated step changes nothing, because
// chunks are never overwritten.
func RollUp(ctx context.Context, q *db.Queries, now time.Time, damage *DamageLog) (more bool, err error) {
	for i, t := range tiers {
		from := t.begin(now.Add(-t.search))
		rows, err := q.MetricPeriods(ctx, db.MetricPeriodsParams{Tier: t.number, FromTime: from})
		if err != nil {
			return false, err
		}
		known := make(map[int64]db.MetricPeriodsRow, len(rows))
		for _, r := range rows {
			known[r.Start.Unix()] = r
		}
		for start := from; !t.end(start).Add(settleTime).After(now); start = t.end(start) {
			p := known[start.Unix()]
			if p.Complete {
				continue
			}
			var after string
			if i == 0 {
				after, err = rollUpHost(ctx, q, t, start, p.After, damage)
			} else {
				after, err = rollUpObjects(ctx, q, t, tiers[i-1], start, p.After, damage)
			}
			if err != nil {
				return false, err
			}
			return true, q.SetMetricPeriod(ctx, db.SetMetricPeriodParams{Tier: t.number, Start: start, After: after, Complete: after == ""})
		}
	}
	return false, nil
}

// rollUpHost writes the chunks of the next host's objects from its samples. It returns the host's ID; empty: there is no
// further host.
func rollUpHost(ctx context.Context, q *db.Queries, t tier, start time.Time, after string, damage *DamageLog) (string, error) {
	end := t.end(start).Add(maxSampleSeconds * time.Second)
	host, err := q.NextMetricHost(ctx, db.NextMetricHostParams{After: fleet.HostID(after), FromTime: start, ToTime: end})
	if err != nil || host == "" {
		return "", err
	}
	objects := map[timeseries.Object]*timeseries.Buckets{}
	err = readSamples(ctx, q, []string{host}, start, end, func(timeseries.Object) bool { return true }, damage, func(s sample) {
		b := objects[s.Object]
		if b == nil {
			b = timeseries.NewBuckets(start, t.step, t.points(start))
			objects[s.Object] = b
		}
		s.addTo(b)
	})
	if err != nil {
		return "", err
	}
	out := db.AddMetricChunksParams{Tier: t.number, Start: start}
	for o, b := range objects {
		addChunk(&out, o, fleet.HostID(host), t.points(start), b)
	}
	return host, q.AddMetricChunks(ctx, out)
}

func addChunk(out *db.AddMetricChunksParams, o timeseries.Object, host fleet.HostID, n int, b *timeseries.Buckets) {
	if points := b.Points(); len(points) > 0 {
		out.Types, out.ObjectIds, out.HostIds = append(out.Types, string(o.Type)), append(out.ObjectIds, o.ID), append(out.HostIds, string(host))
		out.Chunks = append(out.Chunks, timeseries.EncodeChunk(o.Type, n, points))
	}
}

// rollUpObjects writes the chunks of the next objects from those of the finer tier. after is "type/ID" of the last object;
// empty at the start, and returned at the end.
func rollUpObjects(ctx context.Context, q *db.Queries, t, finer tier, start time.Time, after string, damage *DamageLog) (string, error) {
	of, id := fleet.Subject(after).ResourceAndID()
	rows, err := q.MetricChunksOfMany(ctx, db.MetricChunksOfManyParams{
		Tier: finer.number, FromTime: start, ToTime: t.end(start), AfterType: of, AfterID: id, MaxObjects: objectsPerStep,
	})
	if err != nil || len(rows) == 0 {
		return "", err
	}
	out := db.AddMetricChunksParams{Tier: t.number, Start: start}
	for i := 0; i < len(rows); {
		first := rows[i]
		o := timeseries.Object{Type: fleet.ResourceType(first.Type), ID: first.ObjectID}
		b := timeseries.NewBuckets(start, t.step, t.points(start))
		for ; i < len(rows) && rows[i].ObjectID == first.ObjectID && rows[i].Type == first.Type && rows[i].HostID == first.HostID; i++ {
			addPoints(b, o, finer, rows[i].Start, rows[i].Chunk, damage)
		}
		addChunk(&out, o, first.HostID, t.points(start), b)
	}
	last := rows[len(rows)-1]
	return last.Type + ":" + last.ObjectID, q.AddMetricChunks(ctx, out)
}

// addPoints adds the points of a chunk. A damaged chunk is a gap, so that it does not hide the others.
func addPoints(b *timeseries.Buckets, o timeseries.Object, t tier, start time.Time, chunk []byte, damage *DamageLog) {
	n, points, err := timeseries.DecodeChunk(o.Type, chunk)
	if err != nil {
		damage.add(o, start, err)
		return
	}
	for metric, all := range points {
		for i := range n {
			b.Add(metric, start.Add(time.Duration(i+1)*t.step), t.step, all[i])
		}
	}
}

// sample is the values of one object at one time.
type sample struct {
	timeseries.Object
	host    fleet.HostID
	at      time.Time
	over    time.Duration
	metrics []int
	values  []float64
}

func (s sample) addTo(b *timeseries.Buckets) {
	for i, m := range s.metrics {
		b.AddValue(m, s.at, s.over, s.values[i])
	}
}

// readSamples calls visit for the samples of the wanted objects after a time, up to and including another.
func readSamples(ctx context.Context, q *db.Queries, hosts []string, from, to time.Time, want func(timeseries.Object) bool, damage *DamageLog, visit func(sample)) error {
	rows, err := q.MetricSamples(ctx, db.MetricSamplesParams{HostIds: hosts, FromTime: from, ToTime: to})
	if err != nil {
		return err
	}
	layouts, ids := map[int64]timeseries.Layout{}, []int64{}
	for _, r := range rows {
		if _, listed := layouts[r.LayoutID]; !listed {
			layouts[r.LayoutID], ids = timeseries.Layout{}, append(ids, r.LayoutID)
		}
	}
	texts, err := q.MetricLayouts(ctx, ids)
	if err != nil {
		return err
	}
	for _, l := range texts {
		if layouts[l.ID], err = timeseries.ReadLayout([]byte(l.Layout)); err != nil {
			layouts[l.ID] = timeseries.Layout{} // its rows are reported as damaged
		}
	}
	for _, r := range rows {
		s := sample{host: r.HostID, at: r.At, over: time.Duration(float64(r.Seconds) * float64(time.Second))}
		// A damaged row is a gap.
		err := layouts[r.LayoutID].Read(r.Sample, want, func(o timeseries.Object, metrics []int, values []float64) {
			s.Object, s.metrics, s.values = o, metrics, values
			visit(s)
		})
		if err != nil {
			damage.add(timeseries.Object{Type: fleet.TypeHost, ID: string(r.HostID)}, r.At, err)
		}
	}
	return nil
}
