package agent

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"quantix/agent/diagnose"
	"quantix/agent/logtail"
	"quantix/internal/fleet"
	"quantix/internal/hostcommand"
	"quantix/internal/wire"
)

// diagnosis is what diagnostics of the host consist of.
type diagnosis struct {
	items        []diagnose.Item
	site         diagnose.Site
	showSettings func() string // nil: none
	log          *logtail.Tail
	began        time.Time                // when the agent was started
	siteNames    atomic.Pointer[[]string] // names of the site's own diagnostics; nil: not read yet
}

// readSiteNames reads the names of the site's own diagnostics from time to time. Nothing waits for it, because the
// directory may be on storage that hangs.
func (a *Agent) readSiteNames(ctx context.Context) {
	for {
		names := a.diagnosis.site.Names()
		a.diagnosis.siteNames.Store(&names)
		a.reports.triggerFull()
		if !sleepContext(ctx, a.timing.inventoryInterval) {
			return
		}
	}
}

// runDiagnostics collects diagnostics of the host and sends them to the portal.
func runDiagnostics(ctx context.Context, a *Agent, j *job) error {
	items := append(a.diagnosticItems(), a.diagnosis.site.Items(j.Args.Diagnose[:min(len(j.Args.Diagnose), hostcommand.MaxRequested)])...)
	collector := diagnose.Collector{Scrub: diagnose.NewScrubber(a.knownSecrets())}
	got, texts := collector.Collect(ctx, items, func(done int) {
		j.notifier.notify(done*90/len(items), fmt.Sprintf("%d of %d items", done, len(items)))
	})
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return a.sendArchive(ctx, j, got, texts)
}

// sendAgentLog sends the last lines of the agent's log to the portal.
func sendAgentLog(ctx context.Context, a *Agent, j *job) error {
	collector := diagnose.Collector{Scrub: diagnose.NewScrubber(a.knownSecrets())}
	got, texts := collector.Collect(ctx, []diagnose.Item{a.logItem()}, nil)
	return a.sendArchive(ctx, j, got, texts)
}

func (a *Agent) sendArchive(ctx context.Context, j *job, items []hostcommand.Item, texts []string) error {
	archive, err := diagnose.Archive(items, texts, a.client.Now())
	if err != nil {
		return err
	}
	wait := newBackoff(a.timing.retry, a.timing.retryMax)
	for {
		err := a.client.SendArtifact(ctx, j.ID, j.epoch.Load(), archive)
		refused, ok := errors.AsType[*wire.Error](err)
		switch {
		case err == nil:
			return nil
		case ok && refused.Status == 404:
			return errors.New("the portal does not accept archives of this job: upgrade the portal")
		// 401 and 409: a new session, or a newer claim of the job, follows. Otherwise the job is lost, which ends ctx.
		case ok && refused.Status/100 == 4 && !slices.Contains([]int{401, 408, 409, 429}, refused.Status):
			return fmt.Errorf("the portal refused the archive: %s", refused.Detail)
		}
		if !sleepContext(ctx, wait.NextBackOff()) {
			return fmt.Errorf("the archive cannot be sent to the portal: %w", err)
		}
	}
}

// diagnosticItems lists the fixed items: those about the agent, the hypervisor and the machine.
func (a *Agent) diagnosticItems() []diagnose.Item {
	text := func(read func() string) func(context.Context) (string, error) {
		return func(context.Context) (string, error) { return read(), nil }
	}
	out := []diagnose.Item{
		{Name: "agent", Title: "Agent", Read: diagnose.Text(text(a.describe))},
		{Name: "settings", Title: "Settings of the agent", Read: diagnose.Text(func(context.Context) (string, error) {
			if a.diagnosis.showSettings == nil {
				return "", diagnose.NotAvailableError{Reason: "This agent runs inside another program, without settings of its own."}
			}
			return a.diagnosis.showSettings(), nil
		})},
		{Name: "jobs", Title: "Running jobs", Read: diagnose.Text(text(a.running.describe))},
		a.logItem(),
	}
	for _, d := range a.hypervisor.Diagnostics() {
		out = append(out, diagnose.Item{Name: d.Name, Title: d.Title, Read: diagnose.Text(d.Read)})
	}
	return append(out, a.diagnosis.items...)
}

func (a *Agent) logItem() diagnose.Item {
	return diagnose.Item{Name: hostcommand.LogItem, Title: "Agent log", Read: diagnose.Text(func(context.Context) (string, error) {
		return a.diagnosis.log.Text(), nil
	})}
}

// describe describes the agent's process.
func (a *Agent) describe() string {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	var out strings.Builder
	fmt.Fprintf(&out, "Version:          %s\n", a.version)
	fmt.Fprintf(&out, "Built with:       %s for %s/%s\n", runtime.Version(), runtime.GOOS, runtime.GOARCH)
	fmt.Fprintf(&out, "Running for:      %s\n", time.Since(a.diagnosis.began).Round(time.Second))
	fmt.Fprintf(&out, "Goroutines:       %d\n", runtime.NumGoroutine())
	fmt.Fprintf(&out, "Memory:           %s in use, %s from the system\n", fleet.FormatBytes(int64(m.HeapAlloc)), fleet.FormatBytes(int64(m.Sys)))
	fmt.Fprintf(&out, "Host:             %s\n", a.identity.HostID())
	fmt.Fprintf(&out, "Portal:           %s\n", a.identity.Portal())
	if off, ok := a.client.ClockOffset(); ok {
		fmt.Fprintf(&out, "Clock difference: %s from the portal's\n", off.Round(time.Millisecond))
	}
	fmt.Fprintf(&out, "Boot ID:          %s\n", a.bootID())
	fmt.Fprintf(&out, "Open consoles:    %d\n", a.consoleCount.Load())
	return out.String()
}

// describe lists the jobs that wait or run.
func (b *runningJobs) describe() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var lines []string
	for id, j := range b.jobs {
		lines = append(lines, fmt.Sprintf("%-24s %s  job %s, epoch %d, attempt %d\n", j.Kind, j.Subject, id, j.epoch.Load(), j.Attempt))
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}

// restartAgent lets the agent restart. Its result is in the journal before, and the next agent delivers it, so the job is
// done once the next agent has connected to the portal.
func restartAgent(_ context.Context, a *Agent, j *job) error {
	if a.restart == nil {
		return fleet.Errorf(fleet.Conflict, "This agent cannot restart itself, because it runs inside another program.")
	}
	if others := a.running.interrupted(); len(others) > 0 && !j.Args.Force {
		return fleet.Errorf(fleet.Conflict, "Not restarted: jobs began meanwhile that the restart would interrupt (%s). Wait until they have ended, or force the restart.",
			strings.Join(others[:min(len(others), 3)], ", "))
	}
	j.handOver = func() {
		a.log.Warn("The agent restarts: the portal requested it.", "job", j.ID)
		a.restart()
	}
	return nil
}
