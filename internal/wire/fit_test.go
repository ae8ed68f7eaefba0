package wire_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// fillValue puts one entry into every list and sets every pointer, so that a test of EnforceBounds reaches each field
// of a message.
func fillValue(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fillValue(v.Elem())
	case reflect.Slice:
		if v.Type() == reflect.TypeFor[json.RawMessage]() {
			v.SetBytes([]byte(`"\u0000"`))
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fillValue(v.Index(0))
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fillValue(key)
		fillValue(value)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Now()))
			return
		}
		for _, f := range v.Fields() {
			fillValue(f)
		}
	case reflect.String:
		switch {
		case strings.HasSuffix(v.Type().Name(), "ID"):
			v.SetString(fleet.NewID[string]())
		case v.Type() == reflect.TypeFor[fleet.Power](), v.Type() == reflect.TypeFor[fleet.PoolState]():
		case v.Type() == reflect.TypeFor[fleet.NetworkKind]():
			v.SetString(string(fleet.NetworkBridge))
		default:
			v.SetString(strings.Repeat("ü\x00\u202e", 50000))
		}
	case reflect.Int, reflect.Int64, reflect.Int32:
		v.SetInt(-1)
	case reflect.Float64:
		v.SetFloat(-1)
	}
}

// checkTexts fails the test if v contains text that must not be stored or displayed.
func checkTexts(t *testing.T, v any) {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(data), `\u0000`) || strings.Contains(string(data), "\u202e") || strings.Contains(string(data), ":-1") {
		t.Errorf("%T keeps forbidden characters or values: %.400s", v, data)
	}
	if len(data) > 256<<10+2*fleet.MaxGuestOutput {
		t.Errorf("%T is %d bytes long", v, len(data))
	}
}

func checkFits[T any](t *testing.T) {
	t.Helper()
	var m T
	fillValue(reflect.ValueOf(&m).Elem())
	if err := wire.EnforceBounds(&m); err != nil {
		t.Errorf("%T: %v", m, err)
	}
	checkTexts(t, m)
}

func TestBoundsEnforcedOnEveryMessageField(t *testing.T) {
	t.Parallel()
	checkFits[wire.JoinRequest](t)
	checkFits[wire.RenewRequest](t)
	checkFits[wire.Hello](t)
	checkFits[wire.Report](t)
	checkFits[wire.ClaimRequest](t)
	checkFits[wire.Progress](t)
	checkFits[wire.Finish](t)
}

func manyLabels(n int) map[string]string {
	labels := make(map[string]string, n)
	for i := range n {
		labels[fmt.Sprint("k", i)] = ""
	}
	return labels
}

func TestMessageWithInvalidValueRefused(t *testing.T) {
	t.Parallel()
	id := func() fleet.VMID { return fleet.NewID[fleet.VMID]() }
	for field, s := range map[string]wire.State{
		"state.vms[0].id":                   {VMs: []wire.VMReport{{}}},
		"state.vms[1].id":                   {VMs: []wire.VMReport{{ID: id()}, {ID: "../../etc"}}},
		"state.found[0].id":                 {Discovered: []fleet.DiscoveredVM{{ID: fleet.VMID(strings.ToUpper(string(id())))}}},
		"state.vms[0].status.power":         {VMs: []wire.VMReport{{ID: id(), Status: fleet.VMStatus{Power: "melted"}}}},
		"state.networks[0].kind":            {Networks: []wire.NetworkReport{{Name: "n", Kind: "tunnel"}}},
		"state.pools[0].status.state":       {Pools: []wire.PoolReport{{Name: "p", Status: fleet.PoolStatus{State: "melted"}}}},
		"state.vms":                         {VMs: make([]wire.VMReport, 5000)},
		"state.found":                       {Discovered: make([]fleet.DiscoveredVM, 5000)},
		"state.networks":                    {Networks: make([]wire.NetworkReport, 5000)},
		"state.pools[0].status.volumes":     {Pools: []wire.PoolReport{{Status: fleet.PoolStatus{Volumes: make([]fleet.Volume, 5000)}}}},
		"state.vms[0].status.nics":          {VMs: []wire.VMReport{{ID: id(), Status: fleet.VMStatus{NICs: make([]fleet.NICState, 300)}}}},
		"state.host.inventory.gpus":         {Host: fleet.HostStatus{Inventory: fleet.Inventory{GPUs: make([]fleet.GPU, 2000)}}},
		"state.host.discoveredPools":        {Host: fleet.HostStatus{DiscoveredPools: make([]fleet.DiscoveredPool, 2000)}},
		"state.host.settings.labels":        {Host: fleet.HostStatus{Settings: &fleet.AgentSettings{Labels: manyLabels(2000)}}},
		"state.host.otherPools":             {Host: fleet.HostStatus{OtherPools: make([]string, 2000)}},
		"state.vms[0].status.startedAt":     {VMs: []wire.VMReport{{ID: id(), Status: fleet.VMStatus{StartedAt: &time.Time{}}}}},
		"state.vms[0].status.disks":         {VMs: []wire.VMReport{{ID: id(), Status: fleet.VMStatus{Disks: make([]fleet.DiskState, 300)}}}},
		"state.host.inventory.numa":         {Host: fleet.HostStatus{Inventory: fleet.Inventory{NUMA: make([]fleet.NUMANode, 2000)}}},
		"state.host.inventory.cpu.features": {Host: fleet.HostStatus{Inventory: fleet.Inventory{CPU: fleet.CPU{Features: make([]string, 2000)}}}},
	} {
		checkRefused(t, field, wire.EnforceBounds(&wire.Report{State: &s}))
	}
	checkRefused(t, "leases[0].id", wire.EnforceBounds(&wire.Report{Leases: []wire.Lease{{ID: "1"}}}))
	checkRefused(t, "meters", wire.EnforceBounds(&wire.Report{Meters: make([]wire.Meter, 5000)}))
}

func checkRefused(t *testing.T, field string, err error) {
	t.Helper()
	refused, ok := errors.AsType[*fleet.Error](err)
	if !ok || refused.Code != fleet.Invalid || len(refused.Fields) != 1 || refused.Fields[0].Field != field {
		t.Errorf("%s: %+v", field, err)
	}
}

func TestValidMessageUnchangedByBounds(t *testing.T) {
	t.Parallel()
	id := fleet.NewID[fleet.VMID]()
	status := fleet.VMStatus{
		Power: fleet.Running, MemoryMiB: 1 << 20, Error: "line one\n\tline two", NICs: []fleet.NICState{{Addresses: make([]string, 100)}},
	}
	r := wire.Report{
		Seq: 1<<62 + 1, Meters: []wire.Meter{{ID: id, CPUNanos: 1<<62 + 1, ReadBytes: 1 << 62}, {ID: id}},
		State: &wire.State{
			VMs:        []wire.VMReport{{ID: id, Name: "müller", Generation: 1 << 60, Status: status}, {ID: id}},
			Discovered: []fleet.DiscoveredVM{{ID: id}, {ID: fleet.NewID[fleet.VMID](), Name: "a\nb"}},
			Networks:   []wire.NetworkReport{{Name: "br0", Kind: fleet.NetworkBridge}, {Name: "br0", Kind: fleet.NetworkLibvirt}, {Name: "br0", Kind: fleet.NetworkBridge}},
		},
	}
	if err := wire.EnforceBounds(&r); err != nil {
		t.Fatal(err)
	}
	s := r.State
	vm := s.VMs[0]
	if r.Seq != 1<<62+1 || len(r.Meters) != 1 || r.Meters[0].CPUNanos != 1<<62+1 || r.Meters[0].ReadBytes != 1<<53 {
		t.Errorf("numbers: %+v", r)
	}
	if len(s.VMs) != 1 || vm.Name != "müller" || vm.Generation != 1<<60 || vm.Status.Error != status.Error || vm.Status.MemoryMiB != 1<<20 {
		t.Errorf("VMs: %+v", s.VMs)
	}
	if got := len(vm.Status.NICs[0].Addresses); got != 64 {
		t.Errorf("%d guest addresses", got)
	}
	if len(s.Discovered) != 1 || s.Discovered[0].Name != "a�b" || len(s.Networks) != 2 {
		t.Errorf("discovered %+v, networks %+v", s.Discovered, s.Networks)
	}
}
