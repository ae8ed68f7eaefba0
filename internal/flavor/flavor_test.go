package flavor

import (
	"errors"
	"strings"
	"testing"

	"quantix/internal/fleet"
)

func TestPatternMatchesCompleteName(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"web-*", "web-1", true},
		{"web-*", "web-", true},
		{"web-*", "a-web-1", false},
		{"web-??", "web-01", true},
		{"web-??", "web-1", false},
		{"web-??", "web-001", false},
		{"*-db-*", "shop-db-1", true},
		{"*-db-*", "shop-web-1", false},
		{"*a*ab", "xaaab", true},
		{"*", "anything", true},
		{"**", "a", true},
		{"web", "web", true},
		{"web", "web1", false},
		{"w.b", "wxb", false},
	} {
		if got := matchesPattern(c.pattern, c.name); got != c.want {
			t.Errorf("%q matches %q: %v", c.pattern, c.name, got)
		}
	}
}

// fieldsOf returns the fields with errors.
func fieldsOf(check func(c *fleet.Checks)) string {
	var c fleet.Checks
	check(&c)
	refused, ok := errors.AsType[*fleet.Error](c.Err())
	if !ok {
		return ""
	}
	var out []string
	for _, f := range refused.Fields {
		out = append(out, f.Field)
	}
	return strings.Join(out, " ")
}

func TestInvalidFlavorRefused(t *testing.T) {
	t.Parallel()
	for want, s := range map[string]Definition{
		"":            {Name: "small", CPUs: 1, MemoryMiB: 1024},
		"name":        {Name: "Small\u200b", CPUs: 1, MemoryMiB: 1024},
		"description": {Name: "small", CPUs: 1, MemoryMiB: 1024, Description: "a\u202eb"},
		"cpus":        {Name: "small", MemoryMiB: 1024},
		"memoryMiB":   {Name: "small", CPUs: 1},
		"diskBytes":   {Name: "small", CPUs: 1, MemoryMiB: 1024, DiskBytes: -1},
	} {
		if got := fieldsOf(s.Check); got != want {
			t.Errorf("%+v: errors at %q, want %q", s, got, want)
		}
	}
}

func TestInvalidRulesRefused(t *testing.T) {
	t.Parallel()
	for want, r := range map[string]fleet.VMRules{
		"":                     {FlavorsOnly: true, NamePattern: "web-*", Firmware: fleet.UEFI, ExpiryDays: 30, ExpiryStops: true, Locked: []string{KeyFirmware, KeyExpiry, KeySecurityGroups}},
		"vmRules.namePattern":  {NamePattern: "web_*"},
		"vmRules.firmware":     {Firmware: "coreboot"},
		"vmRules.expiryDays":   {ExpiryDays: -1},
		"vmRules.expiryStops":  {ExpiryStops: true},
		"vmRules.locked[0]":    {Locked: []string{"size"}},
		"vmRules.locked[1]":    {Locked: []string{KeyExpiry, KeyExpiry}},
		"vmRules.locked[0] ok": {Locked: []string{KeyPool}},
	} {
		want, _, _ := strings.Cut(want, " ")
		if got := fieldsOf(func(c *fleet.Checks) { CheckRules(c, "vmRules", r, false, false) }); got != want {
			t.Errorf("%+v: errors at %q, want %q", r, got, want)
		}
	}
	if got := fieldsOf(func(c *fleet.Checks) {
		CheckRules(c, "vmRules", fleet.VMRules{Locked: []string{KeyPool, KeyNetwork}}, true, true)
	}); got != "" {
		t.Errorf("locks of a pool and a network with defaults are refused: %s", got)
	}
}

// TestRulesRefuseOnlyNewValues checks each rule with a new VM, and with an edit of a VM that had the value before.
func TestRulesRefuseOnlyNewValues(t *testing.T) {
	t.Parallel()
	locked := func(keys ...string) Rules {
		r := Rules{PoolID: "p1", PoolName: "fast", NetworkID: "n1", NetworkKind: fleet.NetworkLibvirt, NetworkName: "lan"}
		r.Locked = keys
		return r
	}
	small := Rules{VMRules: fleet.VMRules{FlavorsOnly: true}, Flavors: []Flavor{{Definition: Definition{Name: "small", CPUs: 1, MemoryMiB: 1024, DiskBytes: 10 << 30}}}}
	spec := func(cpus, memory int, disk int64) fleet.VMSpec {
		return fleet.VMSpec{CPUs: cpus, MemoryMiB: memory, Firmware: fleet.BIOS, Disks: []fleet.Disk{{PoolID: "p1", SizeBytes: disk}}}
	}
	otherPool := fleet.VMSpec{Disks: []fleet.Disk{{PoolID: "p2", Volume: "v"}}}
	otherNet := fleet.VMSpec{NICs: []fleet.NIC{{MAC: "52:54:00:00:00:01", Network: "wan"}}}
	for name, c := range map[string]struct {
		rules Rules
		vm    VM
		want  string
	}{
		"size of no flavor":       {small, VM{Spec: spec(2, 2048, 10<<30)}, "spec.cpus"},
		"memory of no flavor":     {small, VM{Spec: spec(1, 2048, 10<<30)}, "spec.memoryMiB"},
		"other name":              {Rules{VMRules: fleet.VMRules{NamePattern: "web-*"}}, VM{Name: "db-1"}, "name"},
		"other pool":              {locked(KeyPool), VM{Spec: otherPool}, "spec.disks[0].poolId"},
		"other network":           {locked(KeyNetwork), VM{Spec: otherNet}, "spec.nics[0].network"},
		"other firmware":          {locked(KeyFirmware), VM{Spec: fleet.VMSpec{Firmware: fleet.UEFI}}, "spec.firmware"},
		"flavor":                  {small, VM{Spec: spec(1, 1024, 10<<30)}, ""},
		"name like the pattern":   {Rules{VMRules: fleet.VMRules{NamePattern: "web-*"}}, VM{Name: "web-1"}, ""},
		"pool of the project":     {locked(KeyPool), VM{Spec: spec(1, 1, 1)}, ""},
		"network of the project":  {locked(KeyNetwork), VM{Spec: fleet.VMSpec{NICs: []fleet.NIC{{Network: "lan"}}}}, ""},
		"other pool, not locked":  {locked(KeyNetwork), VM{Spec: otherPool}, ""},
		"firmware of the project": {locked(KeyFirmware), VM{Spec: fleet.VMSpec{Firmware: fleet.BIOS}}, ""},
	} {
		asNew := c.vm
		asNew.New = true
		if got := fieldsOf(func(k *fleet.Checks) { c.rules.Check(k, VM{}, asNew) }); got != c.want {
			t.Errorf("%s, new VM: errors at %q, want %q", name, got, c.want)
		}
		if got := fieldsOf(func(k *fleet.Checks) { c.rules.Check(k, c.vm, c.vm) }); got != "" {
			t.Errorf("%s, VM that had it: errors at %q", name, got)
		}
		c.rules.Free = true
		if got := fieldsOf(func(k *fleet.Checks) { c.rules.Check(k, VM{}, asNew) }); got != "" {
			t.Errorf("%s, administrator: errors at %q", name, got)
		}
	}
	if got := fieldsOf(func(k *fleet.Checks) { small.Check(k, VM{}, VM{New: true, Spec: spec(1, 1024, 20<<30)}) }); got != "spec.disks[0].sizeBytes" {
		t.Errorf("a larger disk than the flavor's: errors at %q", got)
	}
	if got := fieldsOf(func(k *fleet.Checks) {
		small.Check(k, VM{}, VM{New: true, CopiedDisks: true, Spec: spec(1, 1024, 20<<30)})
	}); got != "" {
		t.Errorf("a copied disk of another size: errors at %q", got)
	}
}
