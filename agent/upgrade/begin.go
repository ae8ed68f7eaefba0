package upgrade

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"quantix/agent/state"
	"quantix/internal/fleet"
)

// Begun is what the start of an agent knows about an upgrade. Its methods work on nil: no upgrade.
type Begun struct {
	dir  string
	rec  record
	over chan struct{} // closed when the outcome of the upgrade is recorded
	once sync.Once     // the outcome is recorded, or the previous program is restored
}

// Begin finishes or undoes an upgrade of the data directory. It must be the first step of an agent's start. It returns
// nil if there is no upgrade. If the new program has started too often without a report, or does not report in time after
// this start, Begin restores the previous program and replaces this process by it. A failure of Begin never keeps the
// agent from running; it is written to log.
func Begin(ctx context.Context, dir string, log io.Writer) *Begun {
	b, next := begin(dir, log)
	if next != nil {
		fmt.Fprintln(log, "start the previous program:", execProgram(next.Binary, next.Args))
		os.Exit(1) // the service manager starts the previous program
	}
	if b.OnProbation() {
		go func() {
			if next := b.restoreAtLimit(ctx, probationLimit, log); next != nil {
				fmt.Fprintln(log, "start the previous program:", execProgram(next.Binary, next.Args))
				os.Exit(1)
			}
		}()
	}
	return b
}

// begin is Begin without the replacement of the process. next is the program that must replace it; nil: none.
func begin(dir string, log io.Writer) (b *Begun, next *record) {
	rec, ok, err := readRecord(dir)
	if err != nil {
		fmt.Fprintln(log, err)
	}
	if !ok {
		return nil, nil
	}
	sum, err := hashFile(rec.Binary)
	isNew := err == nil && sum == rec.SHA256
	if isNew && rec.Phase == probation {
		if rec.Starts++; rec.Starts <= maxStarts {
			if err := rec.write(dir); err != nil {
				fmt.Fprintln(log, err)
			}
			return newBegun(dir, rec), nil
		}
		rec.Error = fmt.Sprintf("The new agent was started %d times and did not report to the portal.", maxStarts)
		rec.Phase = restored
	}
	if isNew && rec.Phase == restored {
		err := restore(dir, rec)
		if err == nil {
			return nil, &rec
		}
		rec.Error += fmt.Sprintf(" The previous program cannot be restored, so the new one runs: %s.", err)
		return newBegun(dir, rec), nil
	}
	// The old program runs: the trial failed or was interrupted, or the previous program was restored.
	os.Remove(rec.candidate())
	if rec.Phase = restored; rec.Error == "" {
		rec.Error = "The upgrade was interrupted, and the agent was not changed. Upgrade it again."
	}
	return newBegun(dir, rec), nil
}

func newBegun(dir string, rec record) *Begun {
	return &Begun{dir: dir, rec: rec, over: make(chan struct{})}
}

// restore puts the previous program into place again. The record is written first, so that a crash before the
// replacement does not leave the failed program in place.
func restore(dir string, rec record) error {
	rec.Phase = restored
	if err := rec.write(dir); err != nil {
		return err
	}
	if err := os.Rename(rec.previous(), rec.Binary); err != nil {
		return fmt.Errorf("restore the previous program: %w", err)
	}
	return state.SyncDir(filepath.Dir(rec.Binary))
}

// restoreAtLimit restores the previous program and returns it, unless the agent reports in time.
func (b *Begun) restoreAtLimit(ctx context.Context, limit time.Duration, log io.Writer) (next *record) {
	select {
	case <-b.over:
		return nil
	case <-ctx.Done():
		return nil
	case <-time.After(limit):
	}
	b.once.Do(func() {
		rec := b.rec
		rec.Error = fmt.Sprintf("The new agent did not report to the portal within %s of its start.", limit)
		if err := restore(b.dir, rec); err != nil {
			fmt.Fprintln(log, err)
		}
		next = &rec // without the previous program, a new start of the new one
	})
	return next
}

// Job is the upgrade's job; empty: there is no upgrade.
func (b *Begun) Job() fleet.JobID {
	if b == nil {
		return ""
	}
	return b.rec.Job
}

// OnProbation reports whether this is the new agent, before its first report.
func (b *Begun) OnProbation() bool {
	if b == nil || b.rec.Phase != probation {
		return false
	}
	select {
	case <-b.over:
		return false
	default:
		return true
	}
}

// Failure returns why the upgrade failed; empty: it did not.
func (b *Begun) Failure() string {
	if b == nil {
		return ""
	}
	return b.rec.Error
}

// Wait waits until the outcome of the upgrade is recorded, or ctx ends.
func (b *Begun) Wait(ctx context.Context) {
	if b == nil {
		return
	}
	select {
	case <-b.over:
	case <-ctx.Done():
	}
}

// End ends the upgrade: the outcome is known. write writes the outcome to the agent's journal and runs first, so that a
// crash cannot lose it. Later calls do nothing.
func (b *Begun) End(write func() error) (err error) {
	if b == nil {
		return nil
	}
	b.once.Do(func() {
		err = errors.Join(write(), removeRecord(b.dir))
		close(b.over)
	})
	return err
}
