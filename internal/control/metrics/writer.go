package metrics

import (
	"context"
	"crypto/sha256"
	"errors"
	"hash/maphash"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"quantix/db"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/metric"
	"quantix/internal/timeseries"
)

// Writer stores samples. It is safe for concurrent use.
type Writer struct {
	store *store.Store
	log   *slog.Logger
	seed  maphash.Seed

	mu      sync.Mutex
	layouts map[fleet.HostID]usedLayout
	owners  map[fleet.HostID]provenObjects
	failing bool                       // the last write failed
	full    time.Time                  // the last write failed then, because the disk was full
	refused map[fleet.HostID]time.Time // when refused samples were last recorded
}

// usedLayout is the newest layout of a host in the database.
type usedLayout struct {
	hash [sha256.Size]byte
	id   int64
	at   time.Time // when the database recorded the use
}

// layoutUse is the period after which a layout in use is marked as used again. Unused layouts are deleted some hours later.
const layoutUse = time.Hour

// refusalPeriod is the time between two records of a host's refused samples.
const refusalPeriod = 10 * time.Minute

// fullDiskPause is the time without metrics after an error of a full disk. The rest of the disk is for all other data.
const fullDiskPause = time.Minute

// writeTimeout is how long a report may wait for its samples to be stored.
const writeTimeout = 2 * time.Second

// maxSampleSeconds limits the time that a sample counts for.
const maxSampleSeconds = 2 * fleet.MaxReportInterval

// NewWriter returns a Writer.
func NewWriter(s *store.Store, log *slog.Logger) *Writer {
	return &Writer{store: s, log: log, layouts: map[fleet.HostID]usedLayout{}, owners: map[fleet.HostID]provenObjects{}, seed: maphash.MakeSeed(), refused: map[fleet.HostID]time.Time{}}
}

// HostSamples are the samples of one host.
type HostSamples struct {
	Host fleet.HostID
	metric.Samples
}

// Write stores samples of hosts whose agent sessions are verified. Metrics are the first data that Quantix does without:
// an error is logged, and the samples are lost.
func (w *Writer) Write(ctx context.Context, all []HostSamples) {
	w.mu.Lock()
	paused := time.Since(w.full) < fullDiskPause
	w.mu.Unlock()
	if len(all) == 0 || paused {
		return
	}
	within, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	err := w.write(within, all)
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		clear(w.layouts) // an ID may be unknown to the database
	}
	if state, ok := errors.AsType[*pgconn.PgError](err); ok && state.Code == db.SQLStateDiskFull {
		w.full = time.Now()
	}
	if err != nil && !w.failing {
		w.log.Warn("Metrics were not stored; charts have a gap.", "hosts", len(all), "error", err)
	}
	w.failing = err != nil
}

func (w *Writer) write(ctx context.Context, all []HostSamples) error {
	owned, err := w.ownedObjects(ctx, all)
	if err != nil {
		return err
	}
	var out db.AddMetricSamplesParams
	for _, h := range all {
		if h.Refused != "" {
			if err := w.refuse(ctx, h.Host, h.Refused); err != nil {
				return err
			}
			continue
		}
		layout, row := timeseries.NewRow(h.Host, h.Samples, owned[h.Host].has)
		if len(row) == 0 {
			continue
		}
		id, err := w.layoutID(ctx, h.Host, layout)
		if err != nil {
			return err
		}
		out.HostIds, out.Layouts, out.Samples = append(out.HostIds, string(h.Host)), append(out.Layouts, id), append(out.Samples, row)
		seconds := 1.0
		if h.Seconds > 1 { // false for NaN
			seconds = min(h.Seconds, maxSampleSeconds)
		}
		out.Seconds = append(out.Seconds, float32(seconds))
	}
	if len(out.HostIds) == 0 {
		return nil
	}
	return w.store.AddMetricSamples(ctx, out)
}

// refuse records why samples of a host were refused.
func (w *Writer) refuse(ctx context.Context, host fleet.HostID, reason string) error {
	w.mu.Lock()
	last, known := w.refused[host]
	again := !known || time.Since(last) >= refusalPeriod
	if again {
		w.refused[host] = time.Now()
	}
	w.mu.Unlock()
	if !again {
		return nil
	}
	w.log.Warn("Metrics of a host were refused; its charts have a gap.", "host", host, "reason", reason)
	return w.store.RefuseMetrics(ctx, db.RefuseMetricsParams{HostID: host, Reason: reason})
}

// layoutID returns the ID of the host's layout. Most rows have the layout of the row before.
func (w *Writer) layoutID(ctx context.Context, host fleet.HostID, layout timeseries.Layout) (int64, error) {
	text, hash, err := layout.Text()
	if err != nil {
		return 0, err
	}
	w.mu.Lock()
	used, known := w.layouts[host]
	w.mu.Unlock()
	if known && used.hash == hash && time.Since(used.at) < layoutUse {
		return used.id, nil
	}
	id, err := w.store.UseMetricLayout(ctx, db.UseMetricLayoutParams{HostID: host, Hash: hash[:], Layout: string(text)})
	if err != nil {
		return 0, err
	}
	w.mu.Lock()
	w.layouts[host] = usedLayout{hash, id, time.Now()}
	w.mu.Unlock()
	return id, nil
}
