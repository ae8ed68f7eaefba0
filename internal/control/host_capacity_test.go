package control_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"quantix/internal/control"
	"quantix/internal/control/hosts"
	"quantix/internal/fleet"
)

func (s *projectFixture) createSized(a fleet.Actor, name string, host fleet.HostID, memoryMiB int, overcommit bool) (fleet.VMView, error) {
	spec := smallSpec
	spec.MemoryMiB = memoryMiB
	return s.CreateVM(s.t.Context(), a, control.CreateVM{ProjectID: s.red, HostID: host, Name: name, Spec: spec, Overcommit: overcommit})
}

// A cordoned host gets no new VMs from anybody. Its VMs stay and can be started and edited.
func TestCordonedHostGetsNoNewVMs(t *testing.T) {
	s := newProjectFixture(t)
	existing := s.createVM("there", fleet.Stopped)
	if err := s.CordonHost(t.Context(), chief, s.h1, fleet.ActCordon); err != nil {
		t.Fatal(err)
	}
	s.wantRefused("cordon again", fleet.Conflict, "cordoned already", func() error { return s.CordonHost(t.Context(), chief, s.h1, fleet.ActCordon) })
	for _, a := range []fleet.Actor{chief, s.member} {
		s.wantRefused("a named host, by "+a.Name, fleet.Invalid, "ordoned", func() error { _, err := s.createSized(a, "new", s.h1, 256, false); return err })
	}
	s.wantRefused("overcommit", fleet.Invalid, "h1 is cordoned", func() error { _, err := s.createSized(chief, "new", s.h1, 256, true); return err })
	if v, err := s.createSized(s.member, "placed", "", 256, false); err != nil || s.getVM(v.ID).HostID != s.h2 {
		t.Errorf("placement did not choose h2: %v", err)
	}
	if _, err := s.RequestPowerAction(t.Context(), s.member, existing.ID, fleet.ActStart); err != nil {
		t.Errorf("start a VM of the cordoned host: %v", err)
	}
	s.reportPower(existing.ID, fleet.Running)
	if _, _, err := s.UpdateVM(t.Context(), s.member, existing.ID, editedSpec(s.getVM(existing.ID), func(v *fleet.VMSpec) { v.MemoryMiB = 512 })); err != nil {
		t.Errorf("edit a VM of the cordoned host: %v", err)
	}
	for filter, want := range map[string]string{"cordoned:yes": "h1", "cordoned:no": "h2"} {
		if page, err := s.ListHosts(t.Context(), chief, fleet.Query{Filter: filter}); err != nil || len(page.Items) != 1 || page.Items[0].Name != want {
			t.Errorf("%s: %+v %v", filter, page.Items, err)
		}
	}
	if err := s.CordonHost(t.Context(), chief, s.h1, fleet.ActUncordon); err != nil {
		t.Fatal(err)
	}
	if v, err := s.createSized(s.member, "back", "", 256, false); err != nil || s.getVM(v.ID).HostID != s.h1 {
		t.Errorf("after uncordon, placement did not choose h1: %v", err)
	}
	if n := s.countRows("audit WHERE action = 'host.edit' AND detail IN ('cordoned', 'uncordoned')"); n != 2 {
		t.Errorf("%d audit lines, want 2", n)
	}
}

// A host's spec is checked as a whole, against the host's hardware. An unchanged spec is not written.
func TestHostSpecIsChecked(t *testing.T) {
	s := newProjectFixture(t) // h1 has 8 threads and 16,384 MiB
	all, negative := int64(16384), int64(-1)
	for text, change := range map[string]func(*fleet.HostSpec){
		"Give a ratio from 0.1 to 64":     func(h *fleet.HostSpec) { h.Overcommit.CPU = 65 },
		"Give a ratio from 0.1 to 8":      func(h *fleet.HostSpec) { h.Overcommit.Memory = 0.01 },
		"has 8 threads: leave at least 1": func(h *fleet.HostSpec) { h.Reserved.CPU = 8 },
		"Reserve 0 or more threads":       func(h *fleet.HostSpec) { h.Reserved.CPU = -1 },
		"has 16,384 MiB of memory":        func(h *fleet.HostSpec) { h.Reserved.MemoryMiB = &all },
		"Reserve 0 MiB or more":           func(h *fleet.HostSpec) { h.Reserved.MemoryMiB = &negative },
		`there is no effect "Sometimes"`:  func(h *fleet.HostSpec) { h.Taints = []fleet.Taint{{Key: "gpu", Effect: "Sometimes"}} },
	} {
		s.wantRefused(text, fleet.Invalid, text, func() error { return s.changeHost(s.h1, change) })
	}
	if err := s.changeHost(s.h1, func(*fleet.HostSpec) {}); err != nil || s.countRows("audit") != 0 {
		t.Errorf("an unchanged spec: %v, %d audit lines", err, s.countRows("audit"))
	}
	err := s.changeHost(s.h1, func(h *fleet.HostSpec) { h.Roles.Storage, h.Overcommit.Memory, h.Reserved.CPU = false, 1.5, 2 })
	if err != nil {
		t.Fatal(err)
	}
	h, err := s.GetHost(t.Context(), chief, s.h1)
	if c := h.Capacity; err != nil || c.AllocatableCPUs != 24 || c.AllocatableMemoryMiB != (16384-1024)*3/2 || c.Overcommit != (fleet.Overcommit{CPU: 4, Memory: 1.5}) {
		t.Errorf("the capacity is %+v: %v", c, err)
	}
	var detail string
	const want = "roles compute, storage → compute, overcommit.memory default → 1.5, reserved.cpu 0 → 2"
	if err := s.pool.QueryRow(t.Context(), `SELECT detail FROM audit`).Scan(&detail); err != nil || detail != want {
		t.Errorf("the audit says %q, want %q: %v", detail, want, err)
	}
	extra := s.addPool("extra", `{"kind":"dir","path":"/srv/extra","shared":false}`)
	s.wantRefused("a pool on a host without the role storage", fleet.Invalid, "h1 does not have the role storage", func() error {
		_, err := s.Assign(t.Context(), chief, fleet.SubjectPool(extra), []fleet.HostID{s.h1})
		return err
	})
	if _, err := s.UpdateHost(t.Context(), chief, s.h1, hosts.UpdateHost{IfGeneration: 1}); fleet.CodeOf(err) != fleet.Conflict {
		t.Errorf("an edit of an old generation: %v", err)
	}
}

// A start counts the host's running VMs. Beyond the host's capacity it is refused, unless somebody who may change
// infrastructure chooses overcommit.
func TestStartRefusedBeyondCapacity(t *testing.T) {
	s := newProjectFixture(t) // h1 can allocate 15,360 MiB
	sized := func(name string) fleet.VMID {
		v, err := s.createSized(chief, name, s.h1, 8000, true)
		if err != nil {
			t.Fatal(err)
		}
		s.execSQL(`UPDATE vms SET spec = spec #- '{placement,overcommit}' WHERE id = $1`, v.ID) // as if the host were smaller now
		s.reportPower(v.ID, fleet.Stopped)
		return v.ID
	}
	one, two := sized("one"), sized("two")
	start := func(a fleet.Actor, id fleet.VMID, overcommit bool) func() error {
		return func() error {
			_, err := s.RequestPowerActionWith(t.Context(), a, id, fleet.ActStart, control.PowerOptions{Overcommit: overcommit})
			return err
		}
	}
	if err := start(s.member, one, false)(); err != nil {
		t.Fatalf("the first VM fits: %v", err)
	}
	s.wantRefused("an administrator", fleet.Invalid, "2 fields", start(chief, two, false))
	s.wantRefused("a member", fleet.Invalid, "Not enough memory.", start(s.member, two, false))
	s.wantRefused("a member with overcommit", fleet.Invalid, "Only those who may change infrastructure", start(s.member, two, true))
	if err := start(chief, two, true)(); err != nil {
		t.Fatalf("with overcommit: %v", err)
	}
	if n := s.countRows("audit WHERE action = 'vm.start' AND detail = 'overcommit chosen'"); n != 1 {
		t.Errorf("%d audit lines of the overcommit", n)
	}
	s.reportPower(two, fleet.Stopped)
	s.execSQL(`UPDATE jobs SET state = 'done', epoch = 1, ended_at = now() WHERE subject = $1`, fleet.SubjectVM(two))
	s.execSQL(`UPDATE vms SET spec = jsonb_set(spec, '{power}', '"stopped"') WHERE id = $1`, two)
	if err := start(s.member, two, false)(); err != nil {
		t.Errorf("the next start of a VM that was started by overcommit: %v", err)
	}
	s.execSQL(`UPDATE vms SET spec = jsonb_set(spec, '{power}', '"stopped"') WHERE id = $1`, two) // only the first VM runs
	if _, err := s.RequestPowerAction(t.Context(), s.member, one, fleet.ActStop); err != nil {
		t.Fatal(err)
	}
	s.reportPower(one, fleet.Running) // the order to stop has not been carried out: the VM still uses its memory
	three := sized("three")
	s.wantRefused("while the stopped VM still runs", fleet.Invalid, "2 fields", start(chief, three, false))
}

// Running discovered VMs use the host's memory, too. Domains that are off do not.
func TestDiscoveredVMsCountInCapacity(t *testing.T) {
	s := newProjectFixture(t) // h1 can allocate 15,360 MiB and 32 vCPUs
	setDiscovered := func(power fleet.Power, memory, cpus int) {
		s.execSQL(`INSERT INTO found_vms (host_id, id, name, status) VALUES ($1, $2, 'legacy', jsonb_build_object('power', $3::text, 'memoryMiB', $4::integer, 'cpus', $5::integer))
			ON CONFLICT (host_id, id) DO UPDATE SET status = EXCLUDED.status`, s.h1, "00000000-0000-7000-8000-00000000d15c", power, memory, cpus)
	}
	setDiscovered(fleet.Stopped, 12000, 4)
	v, err := s.createSized(chief, "early", s.h1, 4000, false)
	if err != nil {
		t.Fatalf("the discovered VM is off: %v", err)
	}
	s.reportPower(v.ID, fleet.Stopped)
	create := func(name string) func() error {
		return func() error { _, err := s.createSized(chief, name, s.h1, 4000, false); return err }
	}
	start := func() error {
		_, err := s.RequestPowerAction(t.Context(), s.member, v.ID, fleet.ActStart)
		return err
	}
	for _, power := range []fleet.Power{fleet.Running, fleet.Paused} {
		setDiscovered(power, 12000, 4)
		s.wantRefused("a new VM beside a "+string(power)+" one", fleet.Invalid, "2 fields", create("big"))
		s.wantRefused("a start beside a "+string(power)+" one", fleet.Invalid, "Not enough memory.", start)
	}
	reasons := func() string {
		var refusal *fleet.Error
		if err := create("big")(); !errors.As(err, &refusal) {
			return fmt.Sprint(err)
		}
		return fmt.Sprint(refusal.Fields)
	}
	if text := reasons(); !strings.Contains(text, "MiB of memory left after 1,024 reserved, 12,000 MiB used by discovered VMs; this VM needs 4,000.") {
		t.Errorf("the refusal does not name the discovered VMs: %s", text)
	}
	setDiscovered(fleet.Running, 100, 31)
	if text := reasons(); !strings.Contains(text, "31 vCPUs used by discovered VMs") {
		t.Errorf("the refusal does not name the discovered VMs' vCPUs: %s", text)
	}
	h, err := s.GetHost(t.Context(), chief, s.h1)
	if err != nil || h.DiscoveredMiB != 100 || h.DiscoveredCPUs != 31 {
		t.Errorf("the host has %d MiB and %d vCPUs of discovered VMs, %v", h.DiscoveredMiB, h.DiscoveredCPUs, err)
	}
	setDiscovered(fleet.Running, 100, 1)
	if err := start(); err != nil {
		t.Errorf("a start that fits: %v", err)
	}
	// A VM that has just been adopted does not count twice, although the host has not reported since.
	s.execSQL(`UPDATE found_vms SET id = $1`, v.ID)
	if h, err := s.GetHost(t.Context(), chief, s.h1); err != nil || h.DiscoveredMiB != 0 || h.DiscoveredCPUs != 0 {
		t.Errorf("an adopted VM counts as discovered, %v", err)
	}
}

// TestTotalsCountRunningDiscoveredVMs compares the figures of the host's page, the host list, the cluster and the
// dashboard.
func TestTotalsCountRunningDiscoveredVMs(t *testing.T) {
	s := newProjectFixture(t)
	v, err := s.createSized(chief, "mine", s.h1, 2000, false)
	if err != nil {
		t.Fatal(err)
	}
	insert := func(host fleet.HostID, id fleet.VMID, power fleet.Power) {
		s.execSQL(`INSERT INTO found_vms (host_id, id, name, status) VALUES ($1, $2, 'legacy', jsonb_build_object('power', $3::text, 'memoryMiB', 3000, 'cpus', 5))`, host, id, power)
	}
	insert(s.h1, fleet.NewID[fleet.VMID](), fleet.Running)
	insert(s.h1, fleet.NewID[fleet.VMID](), fleet.Paused)
	insert(s.h1, fleet.NewID[fleet.VMID](), fleet.Stopped)
	insert(s.h1, v.ID, fleet.Running) // just adopted
	insert(s.h2, fleet.NewID[fleet.VMID](), fleet.Stopped)
	if _, err := s.RefreshCounters(t.Context(), fleet.SystemActor); err != nil {
		t.Fatal(err)
	}
	type figures struct {
		discovered int
		cpus, mib  int64
	}
	want := map[fleet.HostID]figures{s.h1: {3, 10, 6000}, s.h2: {1, 0, 0}}
	compare := func() {
		t.Helper()
		page, err := s.ListHosts(t.Context(), chief, fleet.Query{Sort: "-memory"})
		if err != nil || len(page.Items) != 2 || page.Items[0].ID != s.h1 {
			t.Fatalf("the hosts by memory are %+v, %v", page.Items, err)
		}
		var all figures
		for _, row := range page.Items {
			one, err := s.GetHost(t.Context(), chief, row.ID)
			if err != nil {
				t.Fatal(err)
			}
			for where, h := range map[string]fleet.HostView{"list": row, "page": one} {
				if got := (figures{h.DiscoveredVMs, h.DiscoveredCPUs, h.DiscoveredMiB}); got != want[row.ID] {
					t.Errorf("the %s of %s has %+v, want %+v", where, row.Name, got, want[row.ID])
				}
			}
			if row.UsedMiB() != one.UsedMiB() || row.UsedCPUs() != one.UsedCPUs() {
				t.Errorf("%s: the list has %d MiB and %d vCPUs, the page %d and %d", row.Name, row.UsedMiB(), row.UsedCPUs(), one.UsedMiB(), one.UsedCPUs())
			}
			all.discovered, all.cpus, all.mib = all.discovered+row.DiscoveredVMs, all.cpus+row.UsedCPUs(), all.mib+row.UsedMiB()
		}
		c, err := s.GetCluster(t.Context(), chief, page.Items[0].ClusterID)
		if err != nil {
			t.Fatal(err)
		}
		if u := c.Usage; (figures{u.DiscoveredVMs, u.CommittedCPUs + u.DiscoveredCPUs, u.CommittedMiB + u.DiscoveredMiB}) != all {
			t.Errorf("the cluster has %+v, the hosts together %+v", u, all)
		}
		o, err := s.Overview(t.Context(), chief)
		if err != nil || (figures{o.DiscoveredVMs, int64(o.CommittedCPUs) + o.DiscoveredCPUs, o.CommittedMemoryBytes>>20 + o.DiscoveredMemoryBytes>>20}) != all {
			t.Errorf("the dashboard has %+v, the hosts together %+v, %v", o, all, err)
		}
	}
	compare()
	s.execSQL(`UPDATE found_vms SET status = status || '{"power":"stopped"}' WHERE status->>'power' = 'paused'`)
	want[s.h1] = figures{3, 5, 3000}
	if err := s.CountChangedVMs(t.Context(), fleet.SystemActor, nil, []fleet.HostID{s.h1}); err != nil {
		t.Fatal(err)
	}
	compare()
	if page, err := s.ListHosts(t.Context(), chief, fleet.Query{Filter: "memory>4.5G"}); err != nil || len(page.Items) != 1 {
		t.Errorf("the filter by memory lists %d hosts, %v", len(page.Items), err)
	}
	if o, err := s.Overview(t.Context(), s.member); err != nil || o.DiscoveredVMs != 0 || o.DiscoveredMemoryBytes != 0 {
		t.Errorf("a member's dashboard counts discovered VMs: %+v, %v", o, err)
	}
}

// A bulk start has the same choice, which each of its VMs and the task record.
func TestBulkStartByOvercommitNeedsPermission(t *testing.T) {
	s := newProjectFixture(t) // h1 can allocate 15,360 MiB
	s.execSQL(`INSERT INTO project_members (project_id, user_id, role) VALUES ($1, $2, 'member')`, s.red, s.member.UserID)
	var ids []fleet.VMID
	for _, name := range []string{"one", "two", "three", "four"} {
		v, err := s.createSized(chief, name, s.h1, 8000, true)
		if err != nil {
			t.Fatal(err)
		}
		s.execSQL(`UPDATE vms SET spec = spec #- '{placement,overcommit}' WHERE id = $1`, v.ID) // as if the host were smaller now
		s.reportPower(v.ID, fleet.Stopped)
		ids = append(ids, v.ID)
	}
	start := func(a fleet.Actor, overcommit bool, ids ...fleet.VMID) (fleet.Task, error) {
		return s.RequestPowerActionsWith(t.Context(), a, fleet.ActStart, ids, control.PowerOptions{Overcommit: overcommit})
	}
	s.wantRefused("a member with overcommit", fleet.Invalid, "Only those who may change infrastructure", func() error { _, err := start(s.member, true, ids...); return err })
	task, err := start(chief, false, ids[:2]...)
	if err != nil {
		t.Fatal(err)
	}
	s.beginTasks()
	if got := s.childStates(task.ID); got != "one queued, two failed" && got != "one failed, two queued" {
		t.Errorf("without overcommit the VMs are %q", got)
	}
	if task, err = start(chief, true, ids[2:]...); err != nil {
		t.Fatal(err)
	}
	s.beginTasks()
	if got := s.childStates(task.ID); got != "three queued, four queued" && got != "four queued, three queued" {
		t.Errorf("with overcommit the VMs are %q", got)
	}
	for action, n := range map[string]int{"vm.start": 2, "vms.start": 1} {
		if got := s.countRows("audit WHERE detail = 'overcommit chosen' AND action = '" + action + "'"); got != n {
			t.Errorf("%d audit lines %s with the choice, want %d", got, action, n)
		}
	}
}

// However many VMs are created and started at once, the host's running VMs never exceed its capacity.
func TestConcurrentStartsDoNotOvercommitMemory(t *testing.T) {
	s := newProjectFixture(t)
	var ids []fleet.VMID
	for i := range 20 {
		v, err := s.createSized(chief, fmt.Sprintf("vm-%d", i), s.h1, 2000, true)
		if err != nil {
			t.Fatal(err)
		}
		s.execSQL(`UPDATE vms SET spec = spec #- '{placement,overcommit}' WHERE id = $1`, v.ID)
		s.reportPower(v.ID, fleet.Stopped)
		ids = append(ids, v.ID)
	}
	var wg sync.WaitGroup
	for _, id := range ids {
		wg.Go(func() {
			if _, err := s.RequestPowerAction(t.Context(), s.member, id, fleet.ActStart); err != nil && !strings.Contains(err.Error(), "Not enough memory") {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := s.countRows("vms WHERE spec->>'power' = 'running'"); n != 15360/2000 {
		t.Errorf("%d VMs of 2,000 MiB are started on 15,360 MiB, want %d", n, 15360/2000)
	}
}

// A migration counts on its target host from the request on, and passes the same capacity check as a new VM.
func TestMigrationRefusedBeyondCapacityOfTarget(t *testing.T) {
	s := newProjectFixture(t) // h2 can allocate 7,373 MiB
	sized := func(name string, mib int) fleet.VMID {
		v, err := s.createSized(chief, name, s.h1, mib, false)
		if err != nil {
			t.Fatal(err)
		}
		s.reportPower(v.ID, fleet.Stopped)
		s.execSQL(`UPDATE jobs SET state = 'done', epoch = 1, ended_at = now() WHERE subject = $1`, fleet.SubjectVM(v.ID))
		return v.ID
	}
	migrate := func(id fleet.VMID, overcommit bool) error {
		_, err := s.MigrateVM(t.Context(), chief, id, control.MigrateVM{HostID: s.h2, Overcommit: overcommit})
		return err
	}
	one, two := sized("one", 5000), sized("two", 4000)
	if err := migrate(one, false); err != nil {
		t.Fatal(err)
	}
	s.wantRefused("a second migration", fleet.Invalid, "2 fields", func() error { return migrate(two, false) })
	s.wantRefused("a new VM", fleet.Invalid, "2 fields", func() error { _, err := s.createSized(chief, "new", s.h2, 4000, false); return err })
	if err := migrate(two, true); err != nil {
		t.Errorf("with overcommit: %v", err)
	}
}
