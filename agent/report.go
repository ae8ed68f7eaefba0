package agent

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"quantix/agent/hypervisor"
	"quantix/agent/upgrade"
	"quantix/internal/fleet"
	"quantix/internal/metric"
	"quantix/internal/wire"
)

// reporter sends host reports to the portal: the full state after a change, else only a digest.
type reporter struct {
	a            *Agent
	load         func(context.Context) (fleet.HostLoad, error)
	rates        rateMeter            // rates of VMs; used by the loop only
	wake         chan struct{}        // buffer of one
	assigned     wire.AssignedObjects // the portal's newest assignment to this host; used by the loop only
	newestState  wire.State           // the hypervisor's newest state; used by the loop only
	filterCounts filterCounter        // packet counts of NICs; used by the loop only
	guestReports guestReportTimes     // used by the loop only
	reportedHost fleet.HostStatus     // of the newest report; used by the loop only

	mu        sync.Mutex
	readAt    time.Time     // when the read that returned last began; zero: no read has succeeded
	lastRead  readState     // what the health checks judge
	digest    string        // digest of the newest full report that the portal accepted; empty: none in this session
	forceFull bool          // the next report is a full one, changed or not
	sentAt    time.Time     // when the portal accepted the last report of any kind
	interval  time.Duration // interval of reports; see setInterval
}

func newReporter(a *Agent, load func(context.Context) (fleet.HostLoad, error)) *reporter {
	r := &reporter{a: a, load: load, wake: make(chan struct{}, 1)}
	r.setInterval(0)
	return r
}

// trigger requests a report. It never blocks, and bursts are coalesced.
func (r *reporter) trigger() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// triggerFull requests a full report. The agent calls it after each job result: the portal ignores a VM's state in a
// report numbered before the result of the VM's job. If that report already had the new state, later heartbeats with
// the same digest would never deliver it.
func (r *reporter) triggerFull() {
	r.mu.Lock()
	r.forceFull = true
	r.mu.Unlock()
	r.trigger()
}

func (r *reporter) resetSession() {
	r.mu.Lock()
	r.digest = ""
	r.mu.Unlock()
}

// loop sends a report at the start, each period, and after each trigger. It pauses after each report, so that bursts of
// triggers are coalesced, while a single change is reported without delay.
func (r *reporter) loop(ctx context.Context) error {
	wait := newBackoff(r.a.timing.retry, r.a.timing.retryMax)
	interval := r.currentInterval()
	tick := time.NewTicker(interval)
	defer tick.Stop()
	periodic := true
	for {
		err := r.report(ctx, periodic)
		if to := r.currentInterval(); to != interval {
			interval = to
			tick.Reset(interval)
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case isSessionEnded(err):
			return err
		case err != nil:
			r.a.metrics.failures.WithLabelValues("report").Inc()
			r.a.log.Warn("The report did not reach the portal; trying again.", "error", err)
			if !sleepContext(ctx, wait.NextBackOff()) {
				return nil
			}
			continue
		}
		wait.Reset()
		if !sleepContext(ctx, r.a.timing.reportSpacing) {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			periodic = true
		case <-r.wake:
			periodic = false
		}
	}
}

// leaseLoop renews the leases of running jobs if no report has renewed them in time, so that a slow read of the host
// loses no job. Its period is so long that it sends only while a host read or the portal is slow.
func (r *reporter) leaseLoop(ctx context.Context) error {
	for {
		r.mu.Lock()
		due := r.a.timing.leaseInterval - time.Since(r.sentAt)
		digest := r.digest
		r.mu.Unlock()
		if due > 0 || digest == "" {
			if !sleepContext(ctx, max(due, r.a.timing.leaseInterval/8)) {
				return nil
			}
			continue
		}
		if leases := r.a.running.leases(); len(leases) > 0 {
			// This report only renews leases, without a new read of the host. The report must not refresh the age of
			// the state, because a newer read may contain changes that the portal does not know yet.
			out := wire.Report{Seq: r.a.nextSeq(), Digest: digest, Leases: leases, StateAgeMs: wire.NeverRead.Milliseconds()}
			err := r.send(ctx, out, nil)
			if isSessionEnded(err) {
				return err
			}
		}
		if !sleepContext(ctx, r.a.timing.leaseInterval/8) {
			return nil
		}
	}
}

// report reads the host and sends its state; periodic: with meters.
func (r *reporter) report(ctx context.Context, periodic bool) error {
	out := wire.Report{Seq: r.a.nextSeq()} // before the read: see Agent.nextSeq
	if periodic {
		r.readMeters(ctx, &out)
		out.Filters = r.readFilterCounts(ctx)
		out.Guests = r.unsentGuestReadings(ctx)
	}
	state := r.readState(ctx)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	r.reportedHost = state.Host
	data, err := json.Marshal(state)
	if err != nil {
		return fmt.Errorf("encode the host's state: %w", err)
	}
	sum := sha256.Sum256(data)
	out.Digest = hex.EncodeToString(sum[:])
	out.Leases = r.a.running.leases()
	r.mu.Lock()
	full := r.forceFull || out.Digest != r.digest
	r.forceFull = false
	r.mu.Unlock()
	if full {
		out.State = &state
	}
	out.StateAgeMs = max(1, r.stateAge().Milliseconds()) // 0 would mean an agent that cannot report the age
	return r.send(ctx, out, func(answer wire.ReportAnswer) {
		r.setInterval(answer.ReportInterval)
		r.setAssigned(answer.AssignedObjects)
		if err := r.a.state.setMaintenance(answer.Maintenance); err != nil {
			r.a.log.Error("The agent's state file cannot be written.", "error", err)
		}
		r.writeOwnershipMarks(ctx, answer.Marks)
	})
}

// setInterval sets the interval of reports: that of agent.yaml, else the portal's in seconds, else the default if the
// portal wants none. A value outside the limits, which a portal never sends, is ignored.
func (r *reporter) setInterval(portal int) {
	interval := r.a.timing.reportInterval
	switch own := r.a.settings.ReportInterval; {
	case own != 0:
		interval = time.Duration(own) * time.Second
	case portal >= fleet.MinReportInterval && portal <= fleet.MaxReportInterval:
		interval = time.Duration(portal) * time.Second
	}
	r.mu.Lock()
	r.interval = interval
	r.mu.Unlock()
}

func (r *reporter) currentInterval() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.interval
}

// send delivers one report and passes the portal's answer to setAssigned, unless setAssigned is nil.
func (r *reporter) send(ctx context.Context, out wire.Report, setAssigned func(wire.ReportAnswer)) error {
	answer, err := r.a.client.Report(ctx, out)
	if err = r.handleAnswer(out, answer, err); err == nil && setAssigned != nil {
		setAssigned(answer)
	}
	return err
}

func (r *reporter) handleAnswer(out wire.Report, answer wire.ReportAnswer, err error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		r.forceFull = r.forceFull || out.State != nil
		return fmt.Errorf("send the report: %w", err)
	}
	r.a.metrics.recordReport(out)
	r.sentAt = time.Now()
	if out.State != nil {
		r.digest = out.Digest
		r.a.endProbation()
	}
	if answer.Resend {
		r.forceFull = true
		r.trigger()
	}
	r.a.running.stop(answer.Stop)
	r.a.running.markLost(answer.Lost)
	return nil
}

// stateAge returns the age of the hypervisor's newest state, by the monotonic clock.
func (r *reporter) stateAge() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.readAt.IsZero() {
		return wire.NeverRead
	}
	return time.Since(r.readAt)
}

// setAssigned stores the portal's assignment to this host. A changed assignment triggers a report with its volumes.
func (r *reporter) setAssigned(on wire.AssignedObjects) {
	if !on.Equal(r.assigned) {
		r.assigned = on
		r.trigger()
	}
}

// writeOwnershipMarks writes missing ownership marks into the metadata of domains. If a write fails, it is retried
// after the next full report.
func (r *reporter) writeOwnershipMarks(ctx context.Context, marks map[fleet.VMID]string) {
	failed := false
	for id, mark := range marks {
		err := r.a.withCallTimeout(ctx, func(ctx context.Context) error { return r.a.hypervisor.SetOwnershipMark(ctx, id, mark) })
		if err != nil {
			failed = true
			r.a.log.Warn("A VM's mark could not be written; trying again.", "vm", id, "error", err)
		}
	}
	if failed {
		r.mu.Lock()
		r.forceFull = true
		r.mu.Unlock()
	}
	if len(marks) > 0 && !failed {
		r.trigger()
	}
}

// readState reads the host's state. If the hypervisor does not answer, it returns the newest known state with the
// error. Without a known state the lists are null, which means unknown, not empty.
func (r *reporter) readState(ctx context.Context) wire.State {
	within, cancel := context.WithTimeout(ctx, r.a.timing.hostReadLimit)
	defer cancel()
	begun := time.Now()
	on := hypervisor.Assignment{Assigned: r.assigned, Checksums: r.a.state.checksums()}
	state, err := r.a.hypervisor.HostState(within, on)
	if err != nil {
		state.Host = fleet.HostStatus{Hypervisor: r.newestState.Host.Hypervisor, Error: err.Error()}
		if errors.Is(err, context.DeadlineExceeded) {
			state.Host.Error = fmt.Sprintf("The hypervisor did not answer within %s.", r.a.timing.hostReadLimit)
		}
	}
	if state.Host.Connected {
		r.newestState = state
		names := make(map[fleet.VMID]string, len(state.VMs))
		for _, v := range state.VMs {
			names[v.ID] = v.Name
		}
		r.a.metrics.setVMNames(names)
		r.mu.Lock()
		r.readAt = begun
		r.lastRead = newReadState(state, r.assigned.Pools)
		r.mu.Unlock()
		if err := errors.Join(r.a.state.removeOldEntries(state, r.a.running.subjects(), begun), r.a.state.recordRunningObjects(state, r.a.bootID(), begun)); err != nil {
			r.a.log.Error("The agent's state file cannot be written.", "error", err)
		}
		r.a.recordHostReadTime()
	}
	r.a.metrics.setConnected(state.Host.Connected)
	return r.fullState(state.Host)
}

// fullState merges the host's current status, the newest known state, and the agent's own data.
func (r *reporter) fullState(host fleet.HostStatus) wire.State {
	out := wire.State{Host: host}
	known := r.newestState.Host
	if known.Connected {
		out = cloneLists(r.newestState)
		out.Host = host
		r.a.state.addAgentState(&out, r.a.bootID())
		for i := range out.VMs {
			r.a.health.addToStatus(out.VMs[i].ID, &out.VMs[i].Status, r.a.state.healthActions(out.VMs[i].ID))
		}
		r.a.addLinkStatus(&out, r.assigned.Networks)
	}
	out.Host.DiscoveredPools, out.Host.OtherPools = known.DiscoveredPools, nil
	for _, p := range known.DiscoveredPools {
		out.Host.OtherPools = append(out.Host.OtherPools, p.Name)
	}
	inv := r.a.inventory.current()
	inv.Accelerators, inv.Firmwares, inv.PoolGaps = known.Inventory.Accelerators, known.Inventory.Firmwares, known.Inventory.PoolGaps
	inv.CPUModels, inv.CPUModelGaps = known.Inventory.CPUModels, known.Inventory.CPUModelGaps
	inv.VMFields, inv.VMGaps = fleet.OptionalFieldNames(), known.Inventory.VMGaps
	nics, fresh := r.a.nics.get(r.a.timing.nicReadLimit)
	if inv.NICsCurrent = fresh; fresh || nics != nil {
		inv.NICs = nics
	}
	inv.Reapplies, inv.MigratesLive, inv.ReceivesFirmware, inv.ReceivesDefinitions = true, true, true, true
	settings := r.a.settings
	if names := r.a.diagnosis.siteNames.Load(); names != nil {
		settings.Diagnostics = *names
	}
	out.Host.Inventory, out.Host.AgentVersion, out.Host.Settings = inv, r.a.version, &settings
	out.Host.Platform = upgrade.Platform().String()
	return out
}

// cloneLists copies the lists that addAgentState changes.
func cloneLists(s wire.State) wire.State {
	s.VMs = append([]wire.VMReport{}, s.VMs...)
	s.Discovered = append([]fleet.DiscoveredVM{}, s.Discovered...)
	s.Pools = append([]wire.PoolReport{}, s.Pools...)
	s.Networks = append([]wire.NetworkReport{}, s.Networks...)
	return s
}

// readMeters adds the load of the host and the VMs to the report. It omits a load that cannot be read.
func (r *reporter) readMeters(ctx context.Context, out *wire.Report) {
	ctx, cancel := context.WithTimeout(ctx, r.a.timing.hostReadLimit/2)
	defer cancel()
	samples := metric.Samples{}
	if load, err := r.load(ctx); err == nil {
		out.Load = &load.HostMeter
		samples.Host = hostTable(load.Metrics)
		if off, ok := r.a.client.ClockOffset(); ok {
			samples.Host.Values["clock.offset"] = []fleet.MetricValue{fleet.MetricValue(off.Seconds())}
		}
	}
	if vms, err := r.a.hypervisor.Meters(ctx); err == nil {
		for _, v := range vms {
			out.Meters = append(out.Meters, v.Meter)
		}
		samples.VMs = r.rates.table(time.Now(), vms)
	}
	samples.Pools = poolTable(r.newestState.Pools)
	samples.Seconds = r.rates.sinceLastSample(time.Now(), r.currentInterval())
	out.Samples = &samples
}
