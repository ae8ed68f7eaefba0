package placement_test

import (
	"strings"
	"testing"

	"quantix/internal/fleet"
	"quantix/internal/placement"
)

var (
	imageVolume = fleet.Volref{PoolID: "ssd", Volume: "debian.qcow2"}
	isoVolume   = fleet.Volref{PoolID: "ssd", Volume: "cd.iso"}
)

// newHost returns a host that fits every VM, modified by change.
func newHost(name string, memoryMiB, committed int64, change ...func(*placement.Host)) placement.Host {
	h := placement.Host{
		ID: fleet.HostID("id-" + name), Name: name, Phase: fleet.HostOnline, Spec: fleet.DefaultHostSpec(), CommittedMiB: committed,
		Capacity:  fleet.DefaultHostSpec().Capacity(0, memoryMiB, fleet.DefaultOvercommit),
		Firmwares: []fleet.Firmware{fleet.BIOS}, Networks: []string{"libvirt:default", "bridge:br0"},
		Pools: map[fleet.PoolID]placement.Pool{"ssd": {Name: "fast", Assigned: true, State: fleet.PoolActive}},
		Volumes: map[fleet.Volref]fleet.Volume{
			imageVolume: {Name: "debian.qcow2", Format: "qcow2", CapacityBytes: 2 << 30}, isoVolume: {Name: "cd.iso", Format: "iso"},
		},
	}
	for _, do := range change {
		do(&h)
	}
	return h
}

func newSpec(change ...func(*fleet.VMSpec)) fleet.VMSpec {
	s := fleet.VMSpec{
		CPUs: 1, MemoryMiB: 1024, Firmware: fleet.BIOS, Disks: []fleet.Disk{{PoolID: "ssd", Image: &imageVolume}}, ISO: &isoVolume,
		NICs: []fleet.NIC{{Network: "default"}, {Bridge: "br0"}},
	}
	for _, do := range change {
		do(&s)
	}
	return s
}

func TestPlaceChoosesHostWithMostFreeMemory(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		hosts []placement.Host
		want  string
	}{
		"most free":                  {[]placement.Host{newHost("a", 8192, 4096), newHost("b", 8192, 1024)}, "b"},
		"ties by name":               {[]placement.Host{newHost("b", 8192, 0), newHost("a", 8192, 0)}, "a"},
		"only one has room":          {[]placement.Host{newHost("a", 2048, 1000), newHost("b", 2048, 0)}, "b"},
		"10 % reserved for the host": {[]placement.Host{newHost("a", 1100, 0)}, ""},
		"at most 1 GiB reserved":     {[]placement.Host{newHost("a", 102400, 102400-2048)}, "a"},
		"none":                       {nil, ""},
	} {
		got := ""
		if choice := placement.Place(newSpec(), c.hosts); choice.Host != nil {
			got = choice.Host.Name
		}
		if got != c.want {
			t.Errorf("%s: chose %q, want %q", name, got, c.want)
		}
	}
}

func TestPlacementFaultNamesFieldAndReason(t *testing.T) {
	t.Parallel()
	pool := func(p placement.Pool) func(*placement.Host) {
		return func(h *placement.Host) { h.Pools["ssd"] = p }
	}
	volume := func(ref fleet.Volref, v fleet.Volume) func(*placement.Host) {
		return func(h *placement.Host) { h.Volumes[ref] = v }
	}
	for name, c := range map[string]struct {
		spec           fleet.VMSpec
		host           placement.Host
		field, message string
	}{
		"offline":                 {newSpec(), newHost("a", 8192, 0, func(h *placement.Host) { h.Phase = fleet.HostUnknown }), "hostId", "offline"},
		"never reported":          {newSpec(), newHost("a", 8192, 0, func(h *placement.Host) { h.Phase = fleet.HostPending }), "hostId", "not reported"},
		"conflict":                {newSpec(), newHost("a", 8192, 0, func(h *placement.Host) { h.Phase = fleet.HostConflict }), "hostId", "identity"},
		"no hypervisor":           {newSpec(), newHost("a", 8192, 0, func(h *placement.Host) { h.Phase, h.Error = fleet.HostDegraded, "no socket" }), "hostId", "no socket"},
		"too big":                 {newSpec(), newHost("a", 512, 0), "spec.memoryMiB", "512 MiB"},
		"firmware":                {newSpec(func(s *fleet.VMSpec) { s.Firmware = fleet.UEFI }), newHost("a", 8192, 0), "spec.firmware", "UEFI"},
		"no such pool":            {newSpec(), newHost("a", 8192, 0, pool(placement.Pool{})), "spec.disks[0].poolId", "no such pool"},
		"pool elsewhere":          {newSpec(), newHost("a", 8192, 0, pool(placement.Pool{Name: "fast"})), "spec.disks[0].poolId", "Pool fast is not assigned to a"},
		"pool degraded":           {newSpec(), newHost("a", 8192, 0, pool(placement.Pool{Name: "fast", Assigned: true, State: fleet.PoolActive, Error: "it is mounted read-only."})), "spec.disks[0].poolId", "degraded on a: it is mounted read-only."},
		"pool failed":             {newSpec(), newHost("a", 8192, 0, pool(placement.Pool{Name: "fast", Assigned: true, State: fleet.PoolFailed, Error: "mount.nfs: timed out"})), "spec.disks[0].poolId", "failed on a: mount.nfs: timed out"},
		"pool pending":            {newSpec(), newHost("a", 8192, 0, pool(placement.Pool{Name: "fast", Assigned: true, State: fleet.PoolPending})), "spec.disks[0].poolId", "pending on a"},
		"no image":                {newSpec(), newHost("a", 8192, 0, func(h *placement.Host) { delete(h.Volumes, imageVolume) }), "spec.disks[0].image.volume", "no volume"},
		"ISO as image":            {newSpec(), newHost("a", 8192, 0, volume(imageVolume, fleet.Volume{Name: "x.iso", Format: "raw"})), "spec.disks[0].image.volume", "cannot be cloned"},
		"image with backing file": {newSpec(), newHost("a", 8192, 0, volume(imageVolume, fleet.Volume{Name: "x", Format: "qcow2", Backing: "/etc/shadow"})), "spec.disks[0].image.volume", "backing"},
		"smaller disk":            {newSpec(func(s *fleet.VMSpec) { s.Disks[0].SizeBytes = 1 << 30 }), newHost("a", 8192, 0), "spec.disks[0].sizeBytes", "2147483648"},
		"no ISO":                  {newSpec(), newHost("a", 8192, 0, func(h *placement.Host) { delete(h.Volumes, isoVolume) }), "spec.iso.volume", "no volume"},
		"image as ISO":            {newSpec(), newHost("a", 8192, 0, volume(isoVolume, fleet.Volume{Name: "x", Format: "qcow2"})), "spec.iso.volume", "not an ISO image"},
		"no network":              {newSpec(), newHost("a", 8192, 0, func(h *placement.Host) { h.Networks = []string{"bridge:br0", "bridge:default"} }), "spec.nics[0].network", `"default"`},
		"no bridge":               {newSpec(), newHost("a", 8192, 0, func(h *placement.Host) { h.Networks = []string{"libvirt:default"} }), "spec.nics[1].bridge", `"br0"`},
	} {
		faults := placement.Faults(c.spec, c.host)
		if len(faults) == 0 || faults[0].Field != c.field || !strings.Contains(faults[0].Message, c.message) {
			t.Errorf("%s: %v, want %q at %s", name, faults, c.message, c.field)
		}
		if plain := faults[0].Plain; plain == "" || strings.Contains(plain, c.host.Error) && c.host.Error != "" || strings.HasSuffix(plain, " a") {
			t.Errorf("%s: %q names the host", name, plain)
		}
		choice := placement.Place(c.spec, []placement.Host{c.host})
		if choice.Host != nil || len(choice.Refused) != 1 || !strings.Contains(choice.RefusalText(10), c.message) {
			t.Errorf("%s: placed, or %q does not say %q", name, choice.RefusalText(10), c.message)
		}
	}
}

func TestOvercommitAllowedOnNamedHost(t *testing.T) {
	t.Parallel()
	full := newHost("a", 4096, 4096)
	if faults := placement.Faults(newSpec(), full); len(faults) != 0 {
		t.Errorf("named: %v", faults)
	}
	if choice := placement.Place(newSpec(), []placement.Host{full}); choice.Host != nil || !strings.Contains(choice.RefusalText(1), "a has 0 of 4,096 MiB of memory left after 409 reserved; this VM needs 1,024") {
		t.Errorf("placed, or not explained: %s", choice.RefusalText(1))
	}
}

// The host's overcommit ratios and reservations bound what placement allocates.
func TestAllocationBoundedByOvercommitAndReservation(t *testing.T) {
	t.Parallel()
	on := func(committedMiB, committedCPUs int64, change func(*fleet.HostSpec)) placement.Host {
		return newHost("a", 8192, committedMiB, func(h *placement.Host) {
			change(&h.Spec)
			h.CommittedCPUs, h.Capacity = committedCPUs, h.Spec.Capacity(8, 8192, fleet.DefaultOvercommit)
		})
	}
	none, half := int64(0), int64(4096)
	for name, c := range map[string]struct {
		host placement.Host
		want string // of the first refusal; empty: placed
	}{
		"room by default":           {on(8192-819-1024, 31, func(*fleet.HostSpec) {}), ""},
		"full by default":           {on(8192-819-1023, 0, func(*fleet.HostSpec) {}), "a has 1,023 of 8,192 MiB of memory left after 819 reserved; this VM needs 1,024."},
		"nothing reserved":          {on(8192-1024, 0, func(s *fleet.HostSpec) { s.Reserved.MemoryMiB = &none }), ""},
		"half reserved":             {on(4096, 0, func(s *fleet.HostSpec) { s.Reserved.MemoryMiB = &half }), "a has 0 of 8,192 MiB of memory left after 4,096 reserved"},
		"memory overcommit":         {on(8192, 0, func(s *fleet.HostSpec) { s.Overcommit.Memory = 1.5 }), ""},
		"memory overcommit, full":   {on(11059, 0, func(s *fleet.HostSpec) { s.Overcommit.Memory = 1.5 }), "left after 819 reserved, overcommit ratio 1.5; this VM needs 1,024."},
		"all vCPUs allocated":       {on(0, 32, func(*fleet.HostSpec) {}), "a has 0 of 32 vCPUs left (4 for each of its 8 threads); this VM needs 1."},
		"vCPUs, no overcommit":      {on(0, 8, func(s *fleet.HostSpec) { s.Overcommit.CPU = 1 }), "a has 0 of 8 vCPUs left"},
		"vCPUs, with reserved ones": {on(0, 3, func(s *fleet.HostSpec) { s.Overcommit.CPU, s.Reserved.CPU = 0.5, 1 }), "a has 0 of 3 vCPUs left (0.5 for each of its 7 threads, 1 reserved); this VM needs 1."},
		"a reservation of all":      {on(0, 0, func(s *fleet.HostSpec) { s.Reserved.CPU = 7 }), ""},
	} {
		choice := placement.Place(newSpec(), []placement.Host{c.host})
		if why := choice.RefusalText(1); (choice.Host != nil) != (c.want == "") || choice.Host == nil && !strings.Contains(why, strings.TrimSuffix(c.want, ".")) {
			t.Errorf("%s: placed %t: %s, want %q", name, choice.Host != nil, why, c.want)
		}
	}
	reserving := newSpec(func(s *fleet.VMSpec) { s.CPU.Reserved = 100 })
	if f := placement.ReservedCPUFault(reserving, on(0, 0, func(s *fleet.HostSpec) { s.Reserved.CPU = 8 })); f == nil || !strings.Contains(f.Message, "0 left to reserve of 0 processors") {
		t.Errorf("a CPU reservation on reserved threads: %+v", f)
	}
}

// No VM is placed on a cordoned host or a host without the role compute, but a VM on such a host keeps it.
func TestCordonAndRolesKeepNewVMsAway(t *testing.T) {
	t.Parallel()
	ruled := func(name string, change func(*fleet.HostSpec)) placement.Host {
		return newHost(name, 8192, 0, func(h *placement.Host) { change(&h.Spec); h.Rules = &placement.HostRules{} })
	}
	plain := ruled("z", func(*fleet.HostSpec) {})
	for name, c := range map[string]struct {
		change func(*fleet.HostSpec)
		want   string // the chosen host of "a" and "z"
		why    string // of the refusal of "a"
	}{
		"nothing":             {func(*fleet.HostSpec) {}, "a", ""},
		"cordoned":            {func(s *fleet.HostSpec) { s.Schedulable = false }, "z", "a is cordoned: no VM is placed on it."},
		"not a compute host":  {func(s *fleet.HostSpec) { s.Roles.Compute = false }, "z", "a does not have the role compute"},
		"control plane":       {func(s *fleet.HostSpec) { s.Roles.ControlPlane = true }, "z", ""},
		"NoSchedule":          {func(s *fleet.HostSpec) { s.Taints = []fleet.Taint{fleet.ParseTaint("gpu")} }, "z", "a has the taint gpu"},
		"NoExecute":           {func(s *fleet.HostSpec) { s.Taints = []fleet.Taint{fleet.ParseTaint("gpu=x:NoExecute")} }, "z", "a has the taint gpu=x"},
		"PreferNoSchedule":    {func(s *fleet.HostSpec) { s.Taints = []fleet.Taint{fleet.ParseTaint("gpu:PreferNoSchedule")} }, "z", ""},
		"tolerated NoExecute": {func(s *fleet.HostSpec) { s.Taints = []fleet.Taint{fleet.ParseTaint("ssd:NoExecute")} }, "a", ""},
	} {
		spec := newSpec(func(s *fleet.VMSpec) { s.Placement.Tolerations = "ssd" })
		choice := placement.Place(spec, []placement.Host{ruled("a", c.change), plain})
		if choice.Host == nil || choice.Host.Name != c.want {
			t.Errorf("%s: placed on %+v, want %s", name, choice.Host, c.want)
		}
		if len(choice.Refused) > 0 != (c.why != "") || c.why != "" && !strings.Contains(choice.Refused[0].Message, strings.TrimSuffix(c.why, ".")) {
			t.Errorf("%s: refused %+v, want %q", name, choice.Refused, c.why)
		}
		own := ruled("a", c.change)
		own.Rules = nil
		if faults := placement.Faults(spec, own); len(faults) > 0 {
			t.Errorf("%s: a VM on the host already: %+v", name, faults)
		}
	}
}

// Users who may not see hosts get the number of hosts by reason, without host names and the hosts' error texts.
func TestRefusalTextWithoutHostsHidesHostNames(t *testing.T) {
	t.Parallel()
	failed := func(h *placement.Host) {
		h.Pools["ssd"] = placement.Pool{Name: "fast", Assigned: true, State: fleet.PoolFailed, Error: "mount.nfs: nas-7 timed out"}
	}
	hosts := []placement.Host{
		newHost("secret-1", 512, 0), newHost("secret-2", 8192, 0, failed), newHost("secret-3", 4096, 4096), newHost("secret-4", 8192, 0, failed), newHost("secret-5", 600, 0),
		newHost("secret-6", 8192, 0, func(h *placement.Host) { h.Phase, h.Error = fleet.HostDegraded, "no socket" }),
		newHost("secret-7", 8192, 0, func(h *placement.Host) { h.Phase = fleet.HostUnknown }),
	}
	choice := placement.Place(newSpec(), hosts)
	want := "No host can take this VM. 3 hosts: not enough memory; 2 hosts: pool fast is failed; 1 host: no answer from the hypervisor; 1 host: offline."
	if got := choice.RefusalTextWithoutHosts(10); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := choice.RefusalTextWithoutHosts(1); got != "No host can take this VM. 3 hosts: not enough memory; and 3 more." {
		t.Error(got)
	}
	if got := (placement.Choice{}).RefusalTextWithoutHosts(10); !strings.Contains(got, "Ask an administrator") {
		t.Error(got)
	}
}

func TestRefusalTextNamesLimitedNumberOfHosts(t *testing.T) {
	t.Parallel()
	hosts := []placement.Host{newHost("c", 512, 0), newHost("a", 512, 0), newHost("b", 512, 0)}
	why := placement.Place(newSpec(), hosts).RefusalText(2)
	if !strings.Contains(why, "a: ") || !strings.Contains(why, "b: ") || strings.Contains(why, "c: ") || !strings.Contains(why, "and 1 more") {
		t.Error(why)
	}
}

// An agent ignores features that it does not know, so its host is refused.
func TestHostWithoutSupportForFeatureRefused(t *testing.T) {
	t.Parallel()
	wants := newSpec(func(s *fleet.VMSpec) { s.Security.TPM, s.Display.Keyboard = true, "de" })
	for name, c := range map[string]struct {
		spec fleet.VMSpec
		host placement.Host
		want []string
	}{
		"all features":                  {wants, newHost("a", 8192, 0, func(h *placement.Host) { h.AgentFields = fleet.OptionalFieldNames() }), nil},
		"older agent":                   {wants, newHost("a", 8192, 0), []string{"spec.display.keyboard", "spec.security.tpm"}},
		"older agent, no features used": {newSpec(), newHost("a", 8192, 0), nil},
		"agent that knows one feature":  {wants, newHost("a", 8192, 0, func(h *placement.Host) { h.AgentFields = []string{"security.tpm"} }), []string{"spec.display.keyboard"}},
		"host that lacks a feature": {wants, newHost("a", 8192, 0, func(h *placement.Host) {
			h.AgentFields, h.Unsupported = fleet.OptionalFieldNames(), map[string]string{"security.tpm": "swtpm is missing.", "devices.vsock": "-"}
		}), []string{"spec.security.tpm"}},
	} {
		var got []string
		for _, f := range placement.Faults(c.spec, c.host) {
			got = append(got, f.Field)
			if !strings.Contains(f.Message, "Update the agent") && !strings.Contains(f.Message, "swtpm is missing.") {
				t.Errorf("%s: %q lacks an instruction", name, f.Message)
			}
		}
		if strings.Join(got, " ") != strings.Join(c.want, " ") {
			t.Errorf("%s: refused for %q, want %q", name, got, c.want)
		}
	}
}

// Placement checks the host's total huge pages; the free ones matter only at the guest's start.
func TestTooFewHugePagesRefused(t *testing.T) {
	t.Parallel()
	h := newHost("a", 8192, 0, func(h *placement.Host) {
		h.AgentFields = fleet.OptionalFieldNames()
		h.HugePages = []fleet.HugePages{{SizeKiB: 2048, Total: 512}, {SizeKiB: 1 << 20}}
	})
	for what, c := range map[string]struct {
		mib, page int
		message   string
	}{
		"default pages":         {4096, 0, ""},
		"exactly enough":        {1024, 2048, ""},
		"one page too few":      {1026, 2048, "a has 512 huge pages of 2048 KiB, and the VM needs 513."},
		"no pages of this size": {1024, 1 << 20, "a has no huge pages of 1048576 KiB."},
		"unknown size":          {1024, 4096, "a has no huge pages of 4096 KiB."},
	} {
		faults := placement.Faults(newSpec(func(s *fleet.VMSpec) { s.MemoryMiB, s.Memory.HugePageKiB = c.mib, c.page }), h)
		switch {
		case c.message == "" && len(faults) == 0:
		case len(faults) != 1 || faults[0].Field != "spec.memory.hugePageKiB" || faults[0].Message != c.message:
			t.Errorf("%s: %+v, want %q", what, faults, c.message)
		}
	}
}
