//go:build linux && ordeal

package libvirt_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"quantix/internal/fleet"
	"quantix/internal/lab"
	"quantix/internal/wire"
)

// qemuRunCount returns the number of the VM's runs, from libvirt's log of its QEMU.
func qemuRunCount(t *testing.T, vm fleet.VM) int {
	t.Helper()
	return strings.Count(string(must(os.ReadFile(filepath.Join("/var/log/libvirt/qemu", vm.Name+".log")))), "starting up libvirt version")
}

// If the agent or libvirtd is killed during a restart, exactly one run of the VM ends and one begins.
func TestInterruptedRestartHappensOnce(t *testing.T) {
	c := newFaultRunner(t)
	d := newTestPortal(t, c.proxy)
	const apart = 4 * time.Second // minimum distance between two runs on any clock
	vms := make([]fleet.VM, 4)    // restarted in turn, so that no step waits for the distance
	for i := range vms {
		vms[i] = c.newVM()
		vms[i].Spec.Power = fleet.Running
		c.apply(vms[i])
		c.requireNoError(c.StartVM(t.Context(), vms[i].ID))
	}
	turn := 0
	for _, f := range []injectedFault{
		{name: "the agent is killed", first: 1, every: 1, inject: killAgent},
		// These steps skip the start of QEMU: libvirt 9 blocks a guest whose start was interrupted for all later calls.
		{name: "libvirtd is killed", first: 2, every: 4, inject: killServer},
	} {
		for n := f.first; ; n += f.every { // all places, because there are few
			when := fmt.Sprintf("restart, %s at place %d", f.name, n)
			vm := vms[turn%len(vms)]
			turn++
			run := func() fleet.VMStatus {
				t.Helper()
				c.waitReconnected()
				s, _, err := c.VM(t.Context(), vm.ID)
				c.requireNoError(err)
				return s
			}
			before, runs := run(), qemuRunCount(t, vm)
			waitFor(t, when+": the next run has a distinct start time", func() bool { return time.Since(*before.StartedAt) > apart })
			where, end := d.interruptJob(c, wire.Work{Kind: fleet.VMRestart, VM: &vm, Args: fleet.JobArgs{Run: before.StartedAt}}, n, f, func(what string) {
				if what == "in the middle of shut down" { // the test ends QEMU, as a guest does after a shutdown request
					waitFor(t, "QEMU ends", func() bool {
						_, _ = tryVirsh("qemu-monitor-command", string(vm.ID), `{"execute":"quit"}`)
						out, _ := tryVirsh("domstate", string(vm.ID))
						return strings.Contains(out, "shut off")
					})
				}
			})
			if when += " (" + where + ")"; where != "" {
				c.faultCount++
				c.faultCounts[f.name]++
			}
			if now := run(); end.Outcome != wire.Done || now.Power != fleet.Running || qemuRunCount(t, vm) != runs+1 || !now.StartedAt.After(*before.StartedAt) {
				t.Fatalf("%s: the job ended with %+v, the VM is %s and was started %d times more", when, end, now.Power, qemuRunCount(t, vm)-runs)
			}
			if where == "" {
				c.placeCount += f.countPlaces(c.stepCount)
				break
			}
		}
	}
	for _, vm := range vms {
		c.requireNoError(c.StopVM(t.Context(), vm.ID))
	}
	c.logFaultPlaces(8)
}

// If the agent or libvirtd is killed during the job of a guest program, the program runs at most once. The job ends as
// unknown if the agent cannot find out whether the program ran.
func TestInterruptedGuestProgramRunsAtMostOnce(t *testing.T) {
	c := newFaultRunner(t)
	d := newTestPortal(t, c.proxy)
	guest := must(lab.GuestImage(t.Context(), lab.CacheDir()))
	run(t, "cp", guest.Disk, filepath.Join(c.pool.Spec.Path, "root.qcow2"))
	c.requireNoError(c.ApplyPool(t.Context(), c.pool))
	vm := c.newVM()
	vm.Spec.Policy.GuestExec = true
	vm.Spec.Disks = []fleet.Disk{{PoolID: c.pool.ID, Volume: "first.qcow2", Image: &fleet.Volref{PoolID: c.pool.ID, Volume: "root.qcow2"}}}
	c.apply(vm)
	c.requireNoError(c.StartVM(t.Context(), vm.ID))
	answers := func() bool {
		_, err := tryVirsh("qemu-agent-command", string(vm.ID), `{"execute":"guest-ping"}`)
		return err == nil
	}
	number, unknown := 0, 0
	for _, f := range []injectedFault{
		{name: "the agent is killed", first: 1, every: 1, inject: killAgent},
		{name: "libvirtd is killed", first: 2, every: 1, inject: killServer},
	} {
		for n := f.first; ; n += f.every { // all places, because there are few
			waitFor(t, "the guest answers", answers)
			when := fmt.Sprintf("run a program, %s at place %d", f.name, n)
			c.waitReconnected()
			number++
			mark := fmt.Sprintf("run-%d.", number)
			d.secret = string(must(json.Marshal(fleet.GuestProgram{Program: "/bin/sh", Args: []string{"-c", "echo " + mark + " >>/ran"}})))
			where, end := d.interruptJob(c, wire.Work{Kind: fleet.VMExec, VM: &vm, Args: fleet.JobArgs{Guest: &fleet.GuestParams{Program: "/bin/sh", Seconds: 60}}}, n, f, func(string) {})
			if when += " (" + where + ")"; where != "" {
				c.faultCount++
				c.faultCounts[f.name]++
			}
			waitFor(t, "the guest answers", answers)
			ran := strings.Count(runInTestGuest(t, vm.ID, "cat /ran"), mark)
			switch end.Outcome {
			case wire.Done:
				if ran != 1 {
					t.Fatalf("%s: the job ended with %+v and the program ran %d times", when, end, ran)
				}
			case wire.Unknown:
				if unknown++; ran > 1 || where == "" {
					t.Fatalf("%s: the job ended with %+v and the program ran %d times", when, end, ran)
				}
			default:
				if ran != 0 || where == "" {
					t.Fatalf("%s: the job ended with %+v and the program ran %d times", when, end, ran)
				}
			}
			if where == "" {
				c.placeCount += f.countPlaces(c.stepCount)
				break
			}
		}
	}
	c.deleteCompletely("afterwards", vm, "root.qcow2")
	if c.logFaultPlaces(10); unknown == 0 {
		t.Error("no run ended as unknown")
	}
}
