//go:build linux

package bench

import (
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"sync"
	"testing"
	"time"

	"quantix/internal/control"
	"quantix/internal/fleet"
	"quantix/internal/testkit/goals"
)

const (
	drainedGuests   = 20
	drainedAtATime  = 4 // number of slow jobs that an agent runs at the same time
	drainMemoryMiB  = 128
	idleGuestMiB    = 256
	migrationRounds = 5
)

// BenchmarkMigrations measures live migrations of guests between two real libvirt hosts, under emulation, through the
// portal from the request to the end. The reference is virsh with libvirt's own peer-to-peer migration in the same run.
func BenchmarkMigrations(b *testing.B) {
	l := newGuestLab(b)
	b.ResetTimer()
	for range b.N {
		measureIdleMigration(l)
		measureDrain(l)
	}
}

// migrateByVirsh migrates a running guest from one host of the lab to the other.
func (l *guestLab) migrateByVirsh(id fleet.VMID, from int) {
	l.Helper()
	l.runCommand("virsh", "-q", "-c", l.uris[from], "migrate", "--live", "--p2p", "--unsafe", "--persistent", "--undefinesource", string(id), l.uris[1-from])
}

var downtimeLine = regexp.MustCompile(`Total downtime:\s+(\d+)\s+ms`)

// downtimeOf returns how long the guest's last migration to the host paused the guest, as libvirt measured it.
func (l *guestLab) downtimeOf(id fleet.VMID, host int) time.Duration {
	l.Helper()
	text := l.runCommand("virsh", "-c", l.uris[host], "domjobinfo", "--completed", string(id))
	m := downtimeLine.FindStringSubmatch(text)
	if m == nil {
		l.Fatalf("no downtime in %s", text)
	}
	ms, err := strconv.Atoi(m[1])
	if err != nil {
		l.Fatal(err)
	}
	return time.Duration(ms) * time.Millisecond
}

// waitOn waits until the portal shows that the VM runs on the host and can migrate again.
func (l *guestLab) waitOn(id fleet.VMID, host int) {
	l.Helper()
	l.poll("the VM on its new host", func() bool {
		vm := l.getVM(id)
		ok, _ := vm.AllowsMigration(nil, nil)
		return vm.HostID == l.hosts[host].ID && vm.Phase == fleet.PhaseRunning && ok && vm.Generation == vm.ObservedGeneration
	})
}

// measureIdleMigration migrates an idle guest of 256 MiB there by the portal and back by virsh.
func measureIdleMigration(l *guestLab) {
	l.Helper()
	id := l.createVM(control.CreateVM{Name: "idle", HostID: l.hosts[0].ID, Start: true, Spec: fleet.VMSpec{CPUs: 1, MemoryMiB: idleGuestMiB, Firmware: fleet.BIOS}})
	l.waitOn(id, 0)
	var portal, plain, pause, plainPause durations
	for i := range migrationRounds + 1 {
		began := time.Now()
		l.waitTask(callAPI[fleet.Task](l, http.MethodPost, "vms/"+string(id)+"/migrate", map[string]any{"hostId": l.hosts[1].ID}).ID)
		took := time.Since(began)
		paused := l.downtimeOf(id, 1)
		l.waitOn(id, 1)
		began = time.Now()
		l.migrateByVirsh(id, 1)
		other := time.Since(began)
		otherPaused := l.downtimeOf(id, 0)
		l.waitOn(id, 0)
		if i > 0 { // the first round warms up the portal and libvirt
			portal, plain, pause, plainPause = append(portal, took), append(plain, other), append(pause, paused), append(plainPause, otherPaused)
		}
	}
	goals.Migration.Record(l, portal.percentile(0.5) <= plain.percentile(0.5)+300*time.Millisecond, fmt.Sprintf("%.0f ms", milliseconds(portal.percentile(0.5))), fmt.Sprintf("virsh migrate --p2p: %.0f ms", milliseconds(plain.percentile(0.5))), portal.ratioTo(plain))
	goals.Downtime.Record(l, pause.percentile(0.5) <= plainPause.percentile(0.5)+50*time.Millisecond, fmt.Sprintf("%.0f ms", milliseconds(pause.percentile(0.5))), fmt.Sprintf("virsh migrate --p2p: %.0f ms", milliseconds(plainPause.percentile(0.5))), pause.ratioTo(plainPause))
}

// measureDrain migrates 20 guests to the other host by one bulk action, and back by a loop over virsh with the
// concurrency of the agents.
func measureDrain(l *guestLab) {
	l.Helper()
	ids := make([]fleet.VMID, drainedGuests)
	for i := range ids {
		ids[i] = l.createVM(control.CreateVM{Name: fmt.Sprintf("drained-%d", i), HostID: l.hosts[0].ID, Overcommit: true, Start: true, Spec: fleet.VMSpec{
			CPUs: 1, MemoryMiB: drainMemoryMiB, Firmware: fleet.BIOS, Placement: fleet.VMPlacement{Overcommit: true},
		}})
	}
	for _, id := range ids {
		l.waitOn(id, 0)
	}
	began := time.Now()
	l.waitTask(callAPI[fleet.Task](l, http.MethodPost, "vms/migrate", map[string]any{"ids": ids, "hostId": l.hosts[1].ID, "overcommit": true}).ID)
	ours := time.Since(began)
	for _, id := range ids {
		l.waitOn(id, 1)
	}
	began = time.Now()
	todo := make(chan fleet.VMID)
	var loops sync.WaitGroup
	for range drainedAtATime {
		loops.Go(func() {
			for id := range todo {
				l.migrateByVirsh(id, 1)
			}
		})
	}
	for _, id := range ids {
		todo <- id
	}
	close(todo)
	loops.Wait()
	theirs := time.Since(began)
	goals.Drain.Record(l, ours.Seconds() <= theirs.Seconds()*1.15, fmt.Sprintf("%.1f s", ours.Seconds()), fmt.Sprintf("loop over virsh: %.1f s", theirs.Seconds()), ours.Seconds()/theirs.Seconds())
}
