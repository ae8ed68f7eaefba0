package healthcheck

import (
	"context"
	"errors"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"quantix/internal/fleet"
	"quantix/internal/healthevent"
)

// run runs a check and returns its findings as "object code severity".
func run(t *testing.T, c Check) ([]string, error) {
	t.Helper()
	found, err := c.Run(t.Context())
	var out []string
	for _, f := range found {
		out = append(out, f.Object+" "+f.Code+" "+string(f.Severity))
	}
	return out, err
}

func TestBootCheck(t *testing.T) {
	t.Parallel()
	root := tree(t.TempDir())
	state := HypervisorState{}
	check := boot(root, func() HypervisorState { return state })
	if _, err := run(t, check); err == nil {
		t.Error("a hypervisor that was not read gives no reason")
	}
	state = HypervisorState{Read: true, Accelerators: []string{"qemu"}}
	writeFile(t, root, "sys/fs/cgroup/cgroup.controllers", "cpu io memory pids")
	if got, err := run(t, check); err != nil || !slices.Equal(got, []string{" no-kvm warning", "cgroup cgroup-controllers warning"}) {
		t.Errorf("found %v, %v", got, err)
	}
	state.Accelerators = []string{"kvm"}
	writeFile(t, root, "sys/fs/cgroup/cgroup.controllers", "cpuset cpu io memory hugetlb pids rdma misc")
	if got, err := run(t, check); err != nil || len(got) > 0 {
		t.Errorf("found %v, %v", got, err)
	}
	if err := os.Remove(root.path("sys/fs/cgroup/cgroup.controllers")); err != nil {
		t.Fatal(err)
	}
	writeFile(t, root, "proc/cgroups", "#subsys_name\thierarchy\tnum_cgroups\tenabled\ncpuset\t3\t1\t1\ncpu\t4\t1\t1\nblkio\t5\t1\t1\nmemory\t6\t1\t1")
	if got, err := run(t, check); err != nil || len(got) > 0 {
		t.Errorf("with version 1 of cgroups: %v, %v", got, err)
	}
}

func TestHypervisorCheck(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		takes time.Duration
		err   error
		want  string
	}{
		"fast": {time.Millisecond, nil, ""}, "slow": {3 * time.Second, nil, " hypervisor-slow warning"}, "hangs": {time.Hour, nil, " hypervisor-hangs critical"},
		"away": {0, errors.New("connection refused"), " hypervisor-away critical"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				got, err := run(t, Hypervisor(func(ctx context.Context) error {
					select {
					case <-ctx.Done():
						return ctx.Err()
					case <-time.After(c.takes):
						return c.err
					}
				}))
				if err != nil || len(got) > 1 || c.want == "" != (len(got) == 0) || len(got) == 1 && got[0] != c.want {
					t.Errorf("found %v, %v", got, err)
				}
			})
		})
	}
}

func TestClockCheck(t *testing.T) {
	t.Parallel()
	off := func(d time.Duration) func() (time.Duration, bool) {
		return func() (time.Duration, bool) { return d, true }
	}
	yes, no := func() (bool, error) { return true, nil }, func() (bool, error) { return false, nil }
	for name, c := range map[string]struct {
		check  Check
		want   []string
		unread bool
	}{
		"right":           {clock(off(time.Millisecond), yes), nil, false},
		"two seconds":     {clock(off(2*time.Second), yes), []string{"portal clock-offset warning"}, false},
		"minutes":         {clock(off(5*time.Minute), no), []string{"portal clock-offset critical", "kernel clock-unsynchronized warning"}, false},
		"no portal yet":   {clock(func() (time.Duration, bool) { return 0, false }, no), nil, true},
		"unknown kernel":  {clock(off(time.Minute), func() (bool, error) { return false, os.ErrPermission }), []string{"portal clock-offset critical"}, true},
		"this machine's":  {clock(off(0), func() (bool, error) { _, err := kernelClockSynchronized(); return true, err }), nil, false},
		"nothing is read": {clock(func() (time.Duration, bool) { return 0, false }, func() (bool, error) { return false, os.ErrPermission }), nil, true},
	} {
		got, err := run(t, c.check)
		if !slices.Equal(got, c.want) || (err != nil) != c.unread {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

func TestCertificateCheck(t *testing.T) {
	t.Parallel()
	from := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	until := from.AddDate(0, 0, 90)
	for days, want := range map[int]string{1: "", 65: "", 75: " certificate-ends warning", 85: " certificate-ends critical", 91: " certificate-expired critical"} {
		got, err := run(t, Certificate(func() (time.Time, time.Time) { return from, until }, func() time.Time { return from.AddDate(0, 0, days) }))
		if err != nil || want == "" != (len(got) == 0) || len(got) > 0 && got[0] != want {
			t.Errorf("after %d days: %v, %v", days, got, err)
		}
	}
}

func TestPoolCheck(t *testing.T) {
	t.Parallel()
	space := func(state fleet.PoolState, available int64, problem string) fleet.PoolStatus {
		return fleet.PoolStatus{State: state, CapacityBytes: 1000, AvailableBytes: available, Error: problem}
	}
	pools := []PoolState{
		{Name: "a", Status: space(fleet.PoolActive, 500, "")},
		{Name: "b", Status: space(fleet.PoolActive, 100, "")},
		{Name: "c", Status: space(fleet.PoolActive, 10, "slow")},
		{Name: "d", Status: space(fleet.PoolStalled, 0, "nfs")},
		{Name: "e", Status: space(fleet.PoolFailed, 0, "no device")},
		{Name: "f", Status: fleet.PoolStatus{State: fleet.PoolInactive, StoppedOutside: true}},
		{Name: "g", Status: space(fleet.PoolPending, 0, "")},
		{Name: "h", Status: fleet.PoolStatus{State: fleet.PoolActive}},
		{Name: "san", Status: space(fleet.PoolActive, 0, ""), Provided: true},
	}
	got, err := run(t, Pools(func() ([]PoolState, bool) { return pools, true }))
	want := []string{"pool/b pool-full warning", "pool/c pool-degraded warning", "pool/c pool-full critical", "pool/d pool-stalled critical", "pool/e pool-failed critical", "pool/f pool-stopped warning"}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("found %v, %v", got, err)
	}
	if _, err := run(t, Pools(func() ([]PoolState, bool) { return nil, true })); err == nil {
		t.Error("a host without pools is checked")
	}
}

func TestNICCheck(t *testing.T) {
	t.Parallel()
	root, now := tree(t.TempDir()), time.Now()
	nic := func(name, flags, carrier string) {
		writeFile(t, root, "sys/class/net/"+name+"/device/vendor", "0x8086")
		writeFile(t, root, "sys/class/net/"+name+"/flags", flags)
		writeFile(t, root, "sys/class/net/"+name+"/carrier", carrier)
		writeFile(t, root, "sys/class/net/"+name+"/statistics/rx_packets", "1000")
	}
	link := func(name, target string) {
		if err := os.Symlink(target, root.path("sys/class/net", name)); err != nil {
			t.Fatal(err)
		}
	}
	check := nics(root, func() time.Time { return now })
	if _, err := run(t, check); err == nil {
		t.Error("a host without NICs is checked")
	}
	nic("eth0", "0x1003", "1")
	nic("eth1", "0x1003", "0")
	link("eth1/master", "../br0")
	nic("eth2", "0x1003", "0")
	writeFile(t, root, "sys/class/net/bond0/bonding/mode", "active-backup 1")
	link("eth2/master", "../bond0")
	nic("eth3", "0x1002", "0") // switched off
	link("eth3/master", "../br0")
	nic("eth4", "0x1003", "0") // carries nothing
	nic("eth5", "0x1003", "0")
	link("eth5/upper_vlan7", "../vlan7")
	writeFile(t, root, "sys/class/net/eth0/statistics/rx_errors", "70000")
	want := []string{"nic/eth1 link-down critical", "nic/eth2 link-down warning", "nic/eth5 link-down critical"}
	if got, err := run(t, check); err != nil || !slices.Equal(got, want) {
		t.Errorf("found %v, %v", got, err)
	}
	now = now.Add(time.Minute)
	writeFile(t, root, "sys/class/net/eth0/statistics/rx_errors", "70500")
	if got, err := run(t, check); err != nil || !slices.Equal(got, append([]string{"nic/eth0 nic-errors warning"}, want...)) {
		t.Errorf("with errors: %v, %v", got, err)
	}
	now = now.Add(2 * time.Hour)
	if got, err := run(t, check); err != nil || !slices.Equal(got, want) {
		t.Errorf("two hours later: %v, %v", got, err)
	}
}

func TestProgramIsBounded(t *testing.T) {
	t.Parallel()
	sh := func(t *testing.T, script string) (string, int, error) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		out, status, err := runProgram(ctx, "/bin/sh", "-c", script)
		return string(out), status, err
	}
	if out, status, err := sh(t, "echo yes; exit 4"); out != "yes\n" || status != 4 || err != nil {
		t.Errorf("%q, %d, %v", out, status, err)
	}
	if _, _, err := sh(t, "yes"); err == nil {
		t.Error("endless output is read")
	}
	began := time.Now()
	if _, _, err := sh(t, "sleep 60 & sleep 60"); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > 30*time.Second {
		t.Errorf("a hanging program gives %v after %s", err, time.Since(began))
	}
	if _, _, err := NewProgram("quantix-no-such-program")(t.Context()); !errors.Is(err, errNotInstalled) {
		t.Errorf("a missing program gives %v", err)
	}
}

// TestCheckNamesAreKnown keeps the checks and the table of pages and policies together.
func TestCheckNamesAreKnown(t *testing.T) {
	t.Parallel()
	for _, c := range []Check{
		Boot(nil), Hypervisor(nil), Clock(nil), Certificate(nil, nil), Pools(nil), Disks(nil), Memory(), NICs(), GPUs(nil, nil),
	} {
		if !slices.ContainsFunc(healthevent.Checks, func(i healthevent.CheckInfo) bool { return i.Name == c.Name }) || c.Interval <= 0 || c.Timeout <= 0 {
			t.Errorf("the check %s is not complete", c.Name)
		}
	}
}
