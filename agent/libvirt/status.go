package libvirt

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	golibvirt "github.com/digitalocean/go-libvirt"

	"quantix/agent/libvirt/domxml"
	"quantix/agent/libvirt/guest"
	"quantix/agent/libvirt/hostfile"
	"quantix/internal/fleet"
)

// status returns the domain's status. It smooths the sizes with hostfile.SteadySize, so that small fluctuations do not
// change the status.
func (s observedDomain) status(sizes map[string]hostfile.DiskSize, addresses guest.NICAddresses) fleet.VMStatus {
	hw := s.currentHardware()
	st := fleet.VMStatus{CPUs: hw.CPUs, MemoryMiB: hw.MemoryMiB, StartedAt: s.startedAt, Accelerator: s.accelerator}
	st.Power, st.Reason = translatePower(s.state, s.reason)
	st.Launch = s.launch
	if s.live != nil {
		if st.MaxMemory = hw.Max.MemoryMiB; domxml.SupportsCPUHotPlug(s.accelerator, hw.FieldValues.Security.SecureBoot) {
			st.MaxCPUs = hw.Max.CPUs
		}
		st.MinCPUs, st.Modules, st.PendingUnplug = hw.MinCPUs, hw.Modules, s.pendingUnplugs
		if s.managed && s.pendingName() != "" {
			st.NextBoot = []string{"name"}
		}
		st.NextBoot = append(st.NextBoot, domxml.PendingFields(*s.live, s.persistent)...)
	}
	if s.managed {
		st.Drift, st.Unmigratable = s.drift, s.unmigratable
		var now *fleet.VMSpec
		if s.applied != nil {
			now = &s.applied.Spec
			st.BalloonMiB = s.balloonMiB()
			st.Policy, st.Checks = s.applied.Spec.Policy, s.applied.Spec.Health
		}
		st.Snapshots = s.snapshotTree.ReportedTree(now, s.virshSnapshots, s.unmanagedOverlays())
		if s.snapshotReadError != "" {
			st.Snapshots = &fleet.SnapshotTree{Unfinished: s.snapshotReadError, Others: s.virshSnapshots}
		}
		if s.applied != nil && s.applied.Name != s.ref.Name {
			st.Domain = s.ref.Name
		}
	}
	for _, d := range hw.Disks {
		z := sizes[d.Path]
		state := fleet.DiskState{Target: d.Target, Path: d.Path, SizeBytes: z.Bytes, AllocBytes: z.Alloc}
		if k := slices.IndexFunc(s.specDisks, func(v specDisk) bool { return v.matchesDrive(d) }); k >= 0 && z.Presence == hostfile.FilePresent {
			state.Volume = s.specDisks[k].volume()
		}
		st.Disks = append(st.Disks, state)
	}
	for _, n := range hw.NICs {
		nic := fleet.NICState{MAC: n.MAC, Source: n.Source, Filter: n.Filter}
		if s.live != nil {
			nic.Seen, nic.Addresses = addresses[n.MAC], guest.IPsOf(addresses[n.MAC])
		}
		st.NICs = append(st.NICs, nic)
	}
	return st
}

// translatePower translates libvirt's state, and returns the reason in virsh's words.
func translatePower(state, reason int32) (fleet.Power, string) {
	why := func(words []string) string {
		if reason < 0 || int(reason) >= len(words) {
			return ""
		}
		return words[reason]
	}
	switch golibvirt.DomainState(state) {
	case golibvirt.DomainPaused:
		return fleet.Paused, why(pausedReasons)
	case golibvirt.DomainPmsuspended:
		return fleet.Paused, "suspended by the guest"
	case golibvirt.DomainCrashed:
		return fleet.Crashed, "panicked"
	case golibvirt.DomainShutoff, golibvirt.DomainNostate:
		if golibvirt.DomainShutoffReason(reason) == golibvirt.DomainShutoffCrashed {
			return fleet.Crashed, "crashed"
		}
		return fleet.Stopped, why(shutoffReasons)
	}
	return fleet.Running, why(runningReasons)
}

// Reasons in virsh's words, indexed by libvirt's reason numbers. A reason that is of no use to people is empty.
var (
	runningReasons = []string{
		"", "", "migrated", "restored", "from snapshot", "", "migration cancelled", "save cancelled", "woken up", "",
		"post-copy migration", "post-copy migration failed",
	}
	pausedReasons = []string{
		"", "", "migration", "save", "dump", "I/O error", "watchdog", "from snapshot", "shutting down", "snapshot", "crashed",
		"starting up", "post-copy migration", "post-copy migration failed", "API error",
	}
	shutoffReasons = []string{"", "shut down", "forced off", "crashed", "migrated", "saved", "failed to start", "from snapshot", "stopped by libvirt"}
)

// guestStart returns the start time of the guest's QEMU, to the second, and a text that identifies the run, also after a
// change of the host's clock. They are nil and empty if the start is unknown. libvirt does not report it.
func (b *Backend) guestStart(name string) (at *time.Time, run string) {
	pid, ticks, err := processStart(filepath.Join(filepath.Dir(b.daemon.Socket), "qemu", name+".pid"))
	var began time.Time
	if err == nil {
		began, err = timeOfTicks(ticks)
	}
	if err != nil {
		b.log.Debug("start time unknown", "vm", name, "error", err)
		return nil, ""
	}
	return &began, fmt.Sprintf("%s@%d", pid, ticks)
}

// processStart returns the ID in the file, and the start of the process with that ID, in ticks since the host's boot.
func processStart(pidFile string) (pid string, ticks int64, err error) {
	text, err := os.ReadFile(pidFile)
	if err != nil {
		return "", 0, err
	}
	pid = strings.TrimSpace(string(text))
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return "", 0, err
	}
	// The command's name may contain spaces and parentheses, so the fields are counted from its closing parenthesis.
	// The start time is field 22 of the line.
	rest := string(stat[strings.LastIndexByte(string(stat), ')')+1:])
	fields := strings.Fields(rest)
	if len(fields) < 20 {
		return "", 0, fmt.Errorf("%q is not a process status", stat)
	}
	ticks, err = strconv.ParseInt(fields[19], 10, 64)
	return pid, ticks, err
}

func timeOfTicks(ticks int64) (time.Time, error) {
	kernel, err := os.ReadFile("/proc/stat")
	if err != nil {
		return time.Time{}, err
	}
	lines := strings.Split(string(kernel), "\n")
	i := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "btime ") })
	if i < 0 {
		return time.Time{}, fmt.Errorf("/proc/stat has no btime")
	}
	boot, err := strconv.ParseInt(strings.TrimPrefix(lines[i], "btime "), 10, 64)
	if err != nil {
		return time.Time{}, err
	}
	const ticksPerSecond = 100 // USER_HZ is the same on every platform of libvirt
	return time.Unix(boot+ticks/ticksPerSecond, 0).UTC(), nil
}

// diskSizesOf returns the sizes of disks. It reads files directly, and takes other volumes from the latest listing of
// their pool. The size of an unlisted volume is unknown, because the volume may be newer than the listing.
func (b *Backend) diskSizesOf(ctx context.Context, paths hostfile.DiskPaths) map[string]hostfile.DiskSize {
	out := b.diskSizes.Read(ctx, paths)
	for address := range paths {
		p, volume, ok := b.assignedPools.BlockVolumeAt(address)
		if !ok {
			continue
		}
		out[address] = b.pools.VolumeSize(p.Name, volume)
	}
	return out
}
