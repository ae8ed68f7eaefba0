package flavor

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"quantix/internal/fleet"
)

// Rules are a project's rules for its VMs, with the objects to which they refer.
type Rules struct {
	fleet.VMRules
	PoolID      fleet.PoolID // the project's default pool; empty: none
	PoolName    string
	NetworkID   fleet.NetworkID // the project's default network; empty: none
	NetworkKind fleet.NetworkKind
	NetworkName string
	Groups      []Group  // those of SecurityGroups that NICs of the project may use
	Flavors     []Flavor // published to the project; for administrators, all
	Free        bool     // the rules do not bind the actor, who may change infrastructure
	Approves    bool     // the actor creates VMs without approval
}

// Group is a security group of the rules.
type Group struct {
	ID   fleet.SecurityGroupID
	Name string
}

// Keys of values that a project can lock.
const (
	KeyPool           = "pool"
	KeyNetwork        = "network"
	KeyFirmware       = "firmware"
	KeyExpiry         = "expiry"
	KeySecurityGroups = "securityGroups"
)

// VM is what rules check of a VM.
type VM struct {
	Name        string
	Spec        fleet.VMSpec
	New         bool
	ExpiryDays  int  // of a new VM; 0: it never expires
	CopiedDisks bool // the disks are copies, whose sizes nobody chooses
}

// Rule is one rule of a project.
type Rule struct {
	Key, Label string
	Lockable   bool // the project has a default, which it can lock

	// Text describes the project's value; empty: the project sets none.
	Text func(Rules) string
	// check adds an error for each value of vm that the rule refuses, unless the VM had the value before the edit. old of
	// a new VM is empty.
	check func(r Rules, c *fleet.Checks, old, vm VM)
}

// All lists the rules.
var All = []Rule{
	{Key: "approval", Label: "Approval", Text: Rules.approvalText},
	{Key: "flavorsOnly", Label: "Size", Text: Rules.sizeText, check: Rules.checkSize},
	{Key: "namePattern", Label: "Names", Text: func(r Rules) string { return r.NamePattern }, check: Rules.checkName},
	{Key: KeyPool, Label: "Pool", Lockable: true, Text: func(r Rules) string { return r.PoolName }, check: Rules.checkPools},
	{Key: KeyNetwork, Label: "Network", Lockable: true, Text: func(r Rules) string { return r.NetworkName }, check: Rules.checkNetworks},
	{Key: KeyFirmware, Label: "Firmware", Lockable: true, Text: func(r Rules) string { return FirmwareText(r.Firmware) }, check: Rules.checkFirmware},
	{Key: KeyExpiry, Label: "Expiry", Lockable: true, Text: Rules.ExpiryText, check: Rules.checkExpiry},
	{Key: KeySecurityGroups, Label: "Security groups", Lockable: true, Text: Rules.GroupsText}, // see FillGroups
}

// LimitsSizes reports whether the actor can choose only flavors.
func (r Rules) LimitsSizes() bool { return r.FlavorsOnly && !r.Free }

// Locks reports whether the actor cannot change the project's value with the key.
func (r Rules) Locks(key string) bool { return !r.Free && slices.Contains(r.Locked, key) }

// Check adds an error for each value of vm that the rules refuse, unless the VM had the value before the edit. old of a
// new VM is empty. Security groups are checked by FillGroups.
func (r Rules) Check(c *fleet.Checks, old, vm VM) {
	if r.Free {
		return
	}
	for _, rule := range All {
		if rule.check != nil && (!rule.Lockable || r.Locks(rule.Key)) {
			rule.check(r, c, old, vm)
		}
	}
}

// NeedsApproval reports whether the actor's new VMs need approval.
func (r Rules) NeedsApproval() bool { return r.Approval && !r.Approves }

func (r Rules) approvalText() string {
	if r.Approval {
		return "new VMs need approval"
	}
	return ""
}

func (r Rules) sizeText() string {
	if r.FlavorsOnly {
		return "flavors only"
	}
	return ""
}

// maxNamedFlavors limits the flavors that an error names.
const maxNamedFlavors = 6

func (r Rules) checkSize(c *fleet.Checks, old, vm VM) {
	if !r.LimitsSizes() || !vm.New && old.Spec.CPUs == vm.Spec.CPUs && old.Spec.MemoryMiB == vm.Spec.MemoryMiB || FlavorOfSize(r.Flavors, vm) != nil {
		return
	}
	if len(r.Flavors) == 0 {
		c.Add("spec.cpus", "The project allows only flavors, but none is published to it. Ask an administrator to publish one.")
		return
	}
	var names []string
	for _, f := range r.Flavors[:min(len(r.Flavors), maxNamedFlavors)] {
		names = append(names, fmt.Sprintf("%s (%s)", f.Name, f.SizeText()))
	}
	if more := len(r.Flavors) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	field := "spec.cpus"
	if slices.ContainsFunc(r.Flavors, func(f Flavor) bool { return f.CPUs == vm.Spec.CPUs }) {
		field = "spec.memoryMiB"
	}
	noDisk := VM{Spec: vm.Spec, CopiedDisks: true}
	if FlavorOfSize(r.Flavors, noDisk) != nil {
		field = "spec.disks[0].sizeBytes"
	}
	c.Add(field, "The project allows only the sizes of its flavors: %s.", strings.Join(names, "; "))
}

func (r Rules) checkName(c *fleet.Checks, old, vm VM) {
	if r.NamePattern != "" && vm.Name != old.Name && !matchesPattern(r.NamePattern, vm.Name) {
		c.Add("name", "The project's VMs have names like %s, where * is any text and ? is one character.", r.NamePattern)
	}
}

// CheckName refuses the name of a new VM if it does not match the project's pattern.
func (r Rules) CheckName(c *fleet.Checks, name string) {
	if !r.Free {
		r.checkName(c, VM{}, VM{Name: name})
	}
}

// ExampleName returns a name that the project's pattern allows.
func (r Rules) ExampleName() string {
	return strings.NewReplacer("*", "x", "?", "x").Replace(cmp.Or(r.NamePattern, "new-vm"))
}

const setByProject = "The project sets this: %s."

func (r Rules) checkPools(c *fleet.Checks, old, vm VM) {
	for i, d := range vm.Spec.Disks {
		had := d.Volume != "" && slices.ContainsFunc(old.Spec.Disks, func(o fleet.Disk) bool { return o.Ref() == d.Ref() })
		if r.PoolID != "" && d.PoolID != r.PoolID && !had {
			c.Add(fmt.Sprintf("spec.disks[%d].poolId", i), setByProject, r.PoolName)
		}
	}
}

func (r Rules) checkNetworks(c *fleet.Checks, old, vm VM) {
	for i, n := range vm.Spec.NICs {
		had := slices.ContainsFunc(old.Spec.NICs, func(o fleet.NIC) bool {
			return n.MAC != "" && strings.EqualFold(o.MAC, n.MAC) && sameNetwork(o, n) && o.PortGroup == n.PortGroup
		})
		if r.NetworkID != "" && !sameNetwork(n, fleet.NIC{}.WithNetwork(r.NetworkID, r.NetworkKind, r.NetworkName)) && !had {
			c.Add(fmt.Sprintf("spec.nics[%d].network", i), setByProject, r.NetworkName)
		}
	}
}

// sameNetwork reports whether the NICs are on the same network, which each names by ID, or by kind and name.
func sameNetwork(x, y fleet.NIC) bool {
	if x.NetworkID != "" && y.NetworkID != "" {
		return x.NetworkID == y.NetworkID
	}
	kindX, nameX := x.NetworkKindAndName()
	kindY, nameY := y.NetworkKindAndName()
	return kindX == kindY && nameX == nameY
}

// FirmwareText is the name of a firmware; empty: there is no such firmware.
func FirmwareText(f fleet.Firmware) string {
	switch f {
	case fleet.UEFI:
		return "UEFI"
	case fleet.BIOS:
		return "BIOS"
	}
	return ""
}

// DefaultFirmware returns the firmware of new VMs for which none is chosen.
func (r Rules) DefaultFirmware() fleet.Firmware { return cmp.Or(r.Firmware, fleet.BIOS) }

func (r Rules) checkFirmware(c *fleet.Checks, old, vm VM) {
	if f := vm.Spec.Firmware; f != r.DefaultFirmware() && f != old.Spec.Firmware {
		c.Add("spec.firmware", setByProject, FirmwareText(r.DefaultFirmware()))
	}
}

// ExpiryText describes when new VMs expire.
func (r Rules) ExpiryText() string {
	switch {
	case r.ExpiryDays == 0 && r.isLocked(KeyExpiry):
		return "never"
	case r.ExpiryDays == 0:
		return ""
	case r.ExpiryStops:
		return daysText(r.ExpiryDays) + " after creation; then the VM is shut down"
	}
	return daysText(r.ExpiryDays) + " after creation"
}

func daysText(n int) string {
	if n == 1 {
		return "1 day"
	}
	return fmt.Sprintf("%d days", n)
}

func (r Rules) isLocked(key string) bool { return slices.Contains(r.Locked, key) }

func (r Rules) checkExpiry(c *fleet.Checks, _, vm VM) {
	if vm.New && vm.ExpiryDays != r.ExpiryDays {
		c.Add("expiryDays", setByProject, "VMs expire "+r.ExpiryText())
	}
}

// CheckProtection refuses another expiry of an existing VM, if the project has locked it.
func (r Rules) CheckProtection(c *fleet.Checks, was, is fleet.VMProtection) {
	same := was.ExpiryStops == is.ExpiryStops && (was.ExpiresAt == nil && is.ExpiresAt == nil || was.ExpiresAt != nil && is.ExpiresAt != nil && was.ExpiresAt.Equal(*is.ExpiresAt))
	if r.Locks(KeyExpiry) && !same {
		c.Add("expiresAt", "The project sets when VMs expire. Ask an administrator to change the expiry of this VM.")
	}
}

// GroupsText lists the names of the security groups.
func (r Rules) GroupsText() string {
	var names []string
	for _, g := range r.Groups {
		names = append(names, g.Name)
	}
	if len(names) == 0 && r.isLocked(KeySecurityGroups) {
		return "none"
	}
	return strings.Join(names, ", ")
}

// FillGroups returns NIC i with the project's security groups if it is a new NIC without groups. old is the NIC before
// the edit; nil: a new NIC. It refuses other groups if the project has locked them. A NIC keeps the groups of its port
// group.
func (r Rules) FillGroups(c *fleet.Checks, i int, old *fleet.NIC, n fleet.NIC) fleet.NIC {
	var own []fleet.SecurityGroupID
	for _, g := range r.Groups {
		own = append(own, g.ID)
	}
	slices.Sort(own)
	if old == nil && len(n.SecurityGroups) == 0 && len(own) > 0 {
		n.SecurityGroups = own
	}
	now := n.WithNormalizedFilter().SecurityGroups
	if !r.Locks(KeySecurityGroups) || n.DefaultGroups || slices.Equal(now, own) || old != nil && slices.Equal(now, old.WithNormalizedFilter().SecurityGroups) {
		return n
	}
	c.Add(fmt.Sprintf("spec.nics[%d].securityGroups", i), setByProject, r.GroupsText())
	return n
}

var patternForm = regexp.MustCompile(`^[a-z0-9.*?-]{1,63}$`)

// MaxExpiryDays limits VMRules.ExpiryDays.
const MaxExpiryDays = 3650

// CheckRules adds an error for each invalid field of the rules. pool and network are whether the project has a default
// pool and network.
func CheckRules(c *fleet.Checks, at string, r fleet.VMRules, pool, network bool) {
	if r.NamePattern != "" && !patternForm.MatchString(r.NamePattern) {
		c.Add(at+".namePattern", "A pattern has 1–63 lower-case letters, digits, dots, hyphens, * and ?.")
	}
	if r.Firmware != "" && FirmwareText(r.Firmware) == "" {
		c.Add(at+".firmware", "Choose bios or uefi.")
	}
	if r.ExpiryDays < 0 || r.ExpiryDays > MaxExpiryDays {
		c.Add(at+".expiryDays", "Enter 1 to %d days, or leave the field empty.", MaxExpiryDays)
	}
	if r.ExpiryStops && r.ExpiryDays == 0 {
		c.Add(at+".expiryStops", "Enter the days until the expiry, or disable the shutdown at expiry.")
	}
	if len(r.SecurityGroups) > fleet.MaxNICGroups {
		c.Add(at+".securityGroups", "A NIC is in at most %d security groups.", fleet.MaxNICGroups)
	}
	for i, key := range r.Locked {
		k := slices.IndexFunc(All, func(rule Rule) bool { return rule.Key == key && rule.Lockable })
		switch field := fmt.Sprintf("%s.locked[%d]", at, i); {
		case k < 0:
			c.Add(field, "Lock pool, network, firmware, expiry or securityGroups.")
		case slices.Index(r.Locked, key) < i:
			c.Add(field, "%s is locked already.", All[k].Label)
		case key == KeyPool && !pool, key == KeyNetwork && !network:
			c.Add(field, "Choose the project's default %s first. Without a default, members choose.", key)
		}
	}
}

// matchesPattern reports whether the pattern matches the complete text: * is any text, ? is one character.
func matchesPattern(pattern, text string) bool {
	star, from := -1, 0
	p, t := 0, 0
	for t < len(text) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, from = p, t
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == text[t]):
			p++
			t++
		case star >= 0: // the last asterisk takes one more character
			from++
			p, t = star+1, from
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}
