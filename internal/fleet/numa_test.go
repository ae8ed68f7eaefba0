package fleet_test

import (
	"slices"
	"strings"
	"testing"

	"quantix/internal/fleet"
)

func TestNUMANodesAreValidated(t *testing.T) {
	t.Parallel()
	nodes := func(all ...fleet.VMNUMANode) func(*fleet.VMSpec) { return func(s *fleet.VMSpec) { s.NUMA = all } }
	halves := func(a, b string) func(*fleet.VMSpec) {
		return nodes(fleet.VMNUMANode{CPUs: a, MemoryMiB: 256}, fleet.VMNUMANode{CPUs: b, MemoryMiB: 256})
	}
	memory := func(a, b int) func(*fleet.VMSpec) {
		return nodes(fleet.VMNUMANode{CPUs: "0-3", MemoryMiB: a}, fleet.VMNUMANode{CPUs: "4-7", MemoryMiB: b})
	}
	on := func(a, b string) func(*fleet.VMSpec) {
		return nodes(fleet.VMNUMANode{CPUs: "0-3", MemoryMiB: 256, Nodes: a}, fleet.VMNUMANode{CPUs: "4-7", MemoryMiB: 256, Nodes: b})
	}
	both := func(fs ...func(*fleet.VMSpec)) func(*fleet.VMSpec) {
		return func(s *fleet.VMSpec) {
			for _, f := range fs {
				f(s)
			}
		}
	}
	first, second := "spec.numa[0].cpus", "spec.numa[1].cpus"
	for name, c := range map[string]struct {
		change func(*fleet.VMSpec)
		want   []string
	}{
		"halves":                   {halves("0-3", "4-7"), nil},
		"every other":              {halves("0,2,4,6", "1,3,5,7"), nil},
		"out of order":             {halves("7,0-2", "6,5,4,3"), nil},
		"of unequal size":          {nodes(fleet.VMNUMANode{CPUs: "0-6", MemoryMiB: 1}, fleet.VMNUMANode{CPUs: "7", MemoryMiB: 511}), nil},
		"on nodes":                 {on("0-1", "3,2"), nil},
		"one on a node":            {on("", "0"), nil},
		"with maximum vCPUs":       {both(halves("0-3,8-11", "4-7,12-15"), func(s *fleet.VMSpec) { s.CPU.Max = 16 }), nil},
		"all memory on a node":     {both(halves("0-3", "4-7"), func(s *fleet.VMSpec) { s.Memory.Nodes = "0" }), nil},
		"of huge pages":            {both(halves("0-3", "4-7"), func(s *fleet.VMSpec) { s.Memory.HugePageKiB = 2048 }), nil},
		"one node":                 {nodes(fleet.VMNUMANode{CPUs: "0-7", MemoryMiB: 512}), []string{"spec.numa"}},
		"too many nodes":           {func(s *fleet.VMSpec) { s.NUMA = make([]fleet.VMNUMANode, 65) }, []string{"spec.numa"}},
		"no vCPUs":                 {halves("0-7", ""), []string{second}},
		"words":                    {halves("all", "4-7"), []string{first}},
		"a range that ends before": {halves("3-0", "4-7"), []string{first}},
		"an open range":            {halves("0-", "4-7"), []string{first}},
		"a negative number":        {halves("-1", "0-7"), []string{first}},
		"all but some":             {halves("0-7,^3", "3"), []string{first}},
		"markup":                   {halves("0-3'/><x", "4-7"), []string{first}},
		"two lines":                {halves("0-3\n", "4-7"), []string{first}},
		"a long number":            {halves("0-99999", "4-7"), []string{first}},
		"a long set":               {halves(strings.Repeat("0,", 64)+"0", "4-7"), []string{first}},
		"a missing vCPU":           {halves("0-3", "4-8"), []string{second}},
		"far beyond the last":      {halves("0-3", "4-9999"), []string{second}},
		"a vCPU in two nodes":      {halves("0-4", "4-7"), []string{second}},
		"a vCPU twice in a node":   {halves("0-3,2", "4-7"), []string{first}},
		"a vCPU in no node":        {halves("0-3", "5-7"), []string{"spec.numa"}},
		"without maximum vCPUs":    {both(halves("0-3", "4-7"), func(s *fleet.VMSpec) { s.CPU.Max = 16 }), []string{"spec.numa"}},
		"too little memory":        {memory(256, 255), []string{"spec.numa"}},
		"too much memory":          {memory(256, 257), []string{"spec.numa"}},
		"a node without memory":    {memory(512, 0), []string{"spec.numa[1].memoryMiB"}},
		"negative memory":          {memory(513, -1), []string{"spec.numa[1].memoryMiB"}},
		"memory that overflows":    {memory(1<<62, 1<<62), []string{"spec.numa[0].memoryMiB", "spec.numa[1].memoryMiB"}},
		"half a huge page":         {both(memory(255, 257), func(s *fleet.VMSpec) { s.Memory.HugePageKiB = 2048 }), []string{"spec.numa[0].memoryMiB", "spec.numa[1].memoryMiB"}},
		"a node by its name":       {on("node0", ""), []string{"spec.numa[0].nodes"}},
		"nodes that end before":    {on("", "1-0"), []string{"spec.numa[1].nodes"}},
		"nodes with a command":     {on("0;id", ""), []string{"spec.numa[0].nodes"}},
		"memory and NUMA nodes":    {both(on("0", ""), func(s *fleet.VMSpec) { s.Memory.Nodes = "0" }), []string{"spec.memory.nodes"}},
		"too many vCPUs":           {both(halves("0-3", "4-7"), func(s *fleet.VMSpec) { s.CPUs = 1 << 40 }), []string{"spec.cpus", "spec.numa"}},
	} {
		spec := fleet.VMSpec{Power: fleet.Running, CPUs: 8, MemoryMiB: 512, Firmware: fleet.BIOS}
		c.change(&spec)
		if got := fieldsWithErrors(func(checks *fleet.Checks) { spec.Check(checks, "spec") }); !slices.Equal(got, c.want) {
			t.Errorf("%s: faults at %q, want %q", name, got, c.want)
		}
	}
}

// The notation of a set does not matter; the order of NUMA nodes does.
func TestNUMANodesCompareByNumbersAndOrder(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"": "", "0": "0", "0,1,2": "0-2", "3,1-2,0": "0-3", "0-2,2-4,9": "0-4,9", "7,5": "5,7", "x": "x", "3-1": "3-1"} {
		if got := fleet.NormalizeNumberSet(text); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
	f, _ := fleet.FieldByName("numa")
	a, b := fleet.VMNUMANode{CPUs: "0,1", MemoryMiB: 256, Nodes: "0-1"}, fleet.VMNUMANode{CPUs: "2-3", MemoryMiB: 256}
	spec := func(all ...fleet.VMNUMANode) fleet.VMSpec { return fleet.VMSpec{NUMA: all} }
	if !f.Same(spec(a, b), spec(fleet.VMNUMANode{CPUs: "0-1", MemoryMiB: 256, Nodes: "1,0"}, b)) || f.Same(spec(a, b), spec(b, a)) || f.Same(spec(a, b), spec(a)) {
		t.Error("the notation matters, or the order does not")
	}
	if got := f.Words(spec(a, b)); got != "vCPUs 0,1 with 256 MiB of node 0-1, vCPUs 2-3 with 256 MiB" {
		t.Errorf("in words: %s", got)
	}
}

// The memory of a running guest's NUMA nodes can grow; every other change waits for the next start.
func TestNUMANodeMemoryGrowsWhileGuestRuns(t *testing.T) {
	t.Parallel()
	vm := fleet.VM{
		Spec:   fleet.VMSpec{CPUs: 2, MemoryMiB: 512, NUMA: []fleet.VMNUMANode{{CPUs: "0", MemoryMiB: 256}, {CPUs: "1", MemoryMiB: 256}}},
		Status: &fleet.VMStatus{Power: fleet.Running, CPUs: 2, MemoryMiB: 512, MaxMemory: 2048},
	}
	for name, c := range map[string]struct {
		memory int
		nodes  []fleet.VMNUMANode
		when   fleet.EffectTime
	}{
		"one grows":          {768, []fleet.VMNUMANode{{CPUs: "0", MemoryMiB: 512}, {CPUs: "1", MemoryMiB: 256}}, fleet.WhenNow},
		"both grow":          {768, []fleet.VMNUMANode{{CPUs: "0", MemoryMiB: 384}, {CPUs: "1", MemoryMiB: 384}}, fleet.WhenNow},
		"by an odd step":     {768, []fleet.VMNUMANode{{CPUs: "0", MemoryMiB: 448}, {CPUs: "1", MemoryMiB: 320}}, fleet.WhenNextBoot},
		"one shrinks":        {768, []fleet.VMNUMANode{{CPUs: "0", MemoryMiB: 640}, {CPUs: "1", MemoryMiB: 128}}, fleet.WhenNextBoot},
		"above the maximum":  {4096, []fleet.VMNUMANode{{CPUs: "0", MemoryMiB: 3840}, {CPUs: "1", MemoryMiB: 256}}, fleet.WhenNextBoot},
		"with another vCPU":  {768, []fleet.VMNUMANode{{CPUs: "1", MemoryMiB: 512}, {CPUs: "0", MemoryMiB: 256}}, fleet.WhenNextBoot},
		"on another node":    {768, []fleet.VMNUMANode{{CPUs: "0", MemoryMiB: 512, Nodes: "1"}, {CPUs: "1", MemoryMiB: 256}}, fleet.WhenNextBoot},
		"without nodes":      {768, nil, fleet.WhenNextBoot},
		"with one more node": {768, []fleet.VMNUMANode{{CPUs: "0", MemoryMiB: 256}, {CPUs: "1", MemoryMiB: 256}, {CPUs: "2", MemoryMiB: 256}}, fleet.WhenNextBoot},
	} {
		to := vm
		to.Spec.MemoryMiB, to.Spec.NUMA = c.memory, c.nodes
		for _, change := range vm.Diff(to) {
			if change.When != c.when {
				t.Errorf("%s: %+v, want %s", name, change, c.when)
			}
		}
		if len(vm.Diff(to)) != 2 {
			t.Errorf("%s: %+v", name, vm.Diff(to))
		}
	}
}

// Each setting that does not work with encrypted memory is refused at its field.
func TestEncryptedMemoryRefusesIncompatibleSettings(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		kind   string
		change func(*fleet.VMSpec)
		want   []string
	}{
		"SEV":                             {"sev", func(*fleet.VMSpec) {}, nil},
		"SEV-ES":                          {"sev-es", func(*fleet.VMSpec) {}, nil},
		"SNP":                             {"sev-snp", func(*fleet.VMSpec) {}, nil},
		"TDX":                             {"tdx", func(*fleet.VMSpec) {}, nil},
		"with a TPM":                      {"sev", func(s *fleet.VMSpec) { s.Security.TPM = true }, nil},
		"SEV with maximum vCPUs":          {"sev", func(s *fleet.VMSpec) { s.CPU.Max = 16 }, nil},
		"an unknown kind":                 {"sgx", func(*fleet.VMSpec) {}, []string{"spec.security.confidential"}},
		"a kind in capitals":              {"SEV", func(*fleet.VMSpec) {}, []string{"spec.security.confidential"}},
		"a kind with markup":              {"sev'/>", func(*fleet.VMSpec) {}, []string{"spec.security.confidential", "spec.cpu.max"}},
		"by BIOS":                         {"sev", func(s *fleet.VMSpec) { s.Firmware = fleet.BIOS }, []string{"spec.security.confidential"}},
		"with secure boot":                {"sev", func(s *fleet.VMSpec) { s.Security.SecureBoot = true }, []string{"spec.security.secureBoot"}},
		"with a smaller balloon":          {"sev", func(s *fleet.VMSpec) { s.Memory.BalloonMiB = 256 }, []string{"spec.memory.balloonMiB"}},
		"balloon that reports free pages": {"sev", func(s *fleet.VMSpec) { s.Devices.Balloon = "reporting" }, []string{"spec.devices.balloon"}},
		"SEV-ES with maximum vCPUs":       {"sev-es", func(s *fleet.VMSpec) { s.CPU.Max = 16 }, []string{"spec.cpu.max"}},
		"TDX with maximum vCPUs":          {"tdx", func(s *fleet.VMSpec) { s.CPU.Max = 16 }, []string{"spec.cpu.max"}},
		"with a folder of the host": {"sev", func(s *fleet.VMSpec) {
			s.Memory.Shared, s.Shares = true, []fleet.VMShare{{Tag: "src", Folder: fleet.Volref{PoolID: "p", Volume: "src"}}}
		}, []string{"spec.shares"}},
	} {
		spec := fleet.VMSpec{Power: fleet.Running, CPUs: 8, MemoryMiB: 512, Firmware: fleet.UEFI, Security: fleet.VMSecurity{Confidential: c.kind}}
		if strings.Contains(c.kind, "'") {
			spec.CPU.Max = 16
		}
		c.change(&spec)
		if got := fieldsWithErrors(func(checks *fleet.Checks) { spec.Check(checks, "spec") }); !slices.Equal(got, c.want) {
			t.Errorf("%s: faults at %q, want %q", name, got, c.want)
		}
	}
	for policy, want := range map[int64]string{3: "0x0003: debugging is disabled", 7: "0x0007: debugging is disabled", 2: "0x0002: the host may debug the guest and read its memory"} {
		if got := (fleet.LaunchInfo{Kind: "sev", Policy: policy}).PolicyText(); got != want {
			t.Errorf("policy %d is %q, want %q", policy, got, want)
		}
	}
}
