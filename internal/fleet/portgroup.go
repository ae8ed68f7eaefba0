package fleet

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Bounds of port groups.
const (
	MaxPortGroups = 64
	MaxTrunk      = 32
	MaxRateKiB    = 1 << 27 // KiB per second: 128 GiB/s
)

// PortGroup is a named set of settings of a managed network. NICs attach to the port group by name and get its
// settings.
type PortGroup struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	VLAN        *VLAN  `json:"vlan,omitempty"`       // nil: untagged frames
	ToGuest     *Rate  `json:"toGuest,omitempty"`    // limit for each NIC's received traffic; nil: unlimited
	FromGuest   *Rate  `json:"fromGuest,omitempty"`  // limit for each NIC's sent traffic; nil: unlimited
	Restricted  bool   `json:"restricted,omitempty"` // project members need a grant to use the port group

	// Defaults for NICs without their own settings: shared security groups, and anti-spoofing.
	SecurityGroups []SecurityGroupID `json:"securityGroups,omitempty"`
	AntiSpoofing   *bool             `json:"antiSpoofing,omitempty"` // nil: the default for the user who creates the NIC
}

// VLAN configures the tags of a NIC's frames, for a single VLAN or a trunk.
type VLAN struct {
	ID    int   `json:"id,omitempty"`    // 1 to 4094; with a trunk: VLAN of untagged frames, or 0
	Trunk []int `json:"trunk,omitempty"` // further VLANs, with tags that the guest sees
}

// Rate limits a NIC in one direction. PeakKiB and BurstKiB are optional (0), AverageKiB is required.
type Rate struct {
	AverageKiB int `json:"averageKiB"`         // per second
	PeakKiB    int `json:"peakKiB,omitempty"`  // per second, for a short time
	BurstKiB   int `json:"burstKiB,omitempty"` // amount that may be sent at the peak rate
}

var portGroupForm = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,30}[a-z0-9])?$`)

// CheckPortGroupName adds an error at field if a port group cannot have the name.
func CheckPortGroupName(c *Checks, field, name string) {
	if !portGroupForm.MatchString(name) {
		c.Add(field, "A port group's name has 1–32 lower-case letters, digits, dots and hyphens, and starts and ends with a letter or digit.")
	}
}

// TagsVLANs reports whether port groups of the network can have VLANs; why is the reason if not.
func (s NetworkSpec) TagsVLANs() (ok bool, why string) {
	if s.Mode.Info().PortGroupVLANs {
		return true, ""
	}
	return false, "The bridge of this kind of network does not support VLANs. Define a network for each VLAN, or use Open vSwitch."
}

// FiltersNICs reports whether hosts can filter the network's NICs; why is the reason if not.
func (s NetworkSpec) FiltersNICs() (ok bool, why string) {
	if !s.Mode.Info().Unfiltered {
		return true, ""
	}
	return false, "Hosts cannot filter the traffic of NICs on this kind of network, so security groups and anti-spoofing have no effect there."
}

// PortGroupByName returns the port group with the name, or nil.
func (s *NetworkSpec) PortGroupByName(name string) *PortGroup {
	if s == nil {
		return nil
	}
	if i := slices.IndexFunc(s.PortGroups, func(g PortGroup) bool { return g.Name == name }); i >= 0 {
		return &s.PortGroups[i]
	}
	return nil
}

// checkPortGroups adds an error for each invalid port group.
func (s NetworkSpec) checkPortGroups(c *Checks, field string) {
	if len(s.PortGroups) > MaxPortGroups {
		c.Add(field, "A network has at most %d port groups.", MaxPortGroups)
		return
	}
	names := map[string]bool{}
	for i, g := range s.PortGroups {
		at := fmt.Sprintf("%s[%d]", field, i)
		CheckPortGroupName(c, at+".name", g.Name)
		if names[g.Name] {
			c.Add(at+".name", "The network already has a port group named %s.", g.Name)
		}
		names[g.Name] = true
		CheckDescription(c, at+".description", g.Description)
		if g.VLAN != nil {
			if ok, why := s.TagsVLANs(); !ok {
				c.Add(at+".vlan", "%s", why)
			}
			g.VLAN.check(c, at+".vlan")
		}
		if ok, why := s.FiltersNICs(); !ok {
			if len(g.SecurityGroups) > 0 {
				c.Add(at+".securityGroups", "%s", why)
			}
			if g.AntiSpoofing != nil && *g.AntiSpoofing {
				c.Add(at+".antiSpoofing", "%s", why)
			}
		}
		NIC{SecurityGroups: g.SecurityGroups}.checkSecurityGroups(c, at)
		g.ToGuest.check(c, at+".toGuest")
		g.FromGuest.check(c, at+".fromGuest")
	}
}

func (v VLAN) check(c *Checks, field string) {
	wrong := func(id int) bool { return id < 1 || id > 4094 }
	sorted := slices.Sorted(slices.Values(v.Trunk))
	switch {
	case v.ID != 0 && wrong(v.ID), v.ID == 0 && len(v.Trunk) == 0, slices.ContainsFunc(v.Trunk, wrong):
		c.Add(field, "A VLAN ID is a number from 1 to 4094.")
	case len(v.Trunk) > MaxTrunk:
		c.Add(field, "A trunk has at most %d VLANs.", MaxTrunk)
	case len(slices.Compact(sorted)) < len(v.Trunk), slices.Contains(v.Trunk, v.ID):
		c.Add(field, "List each VLAN only once.")
	}
}

func (r *Rate) check(c *Checks, field string) {
	switch {
	case r == nil:
	case r.AverageKiB < 1 || r.AverageKiB > MaxRateKiB:
		c.Add(field, "The average must be between 1 and %d KiB/s.", MaxRateKiB)
	case r.PeakKiB != 0 && (r.PeakKiB < r.AverageKiB || r.PeakKiB > MaxRateKiB):
		c.Add(field, "The peak must be at least the average, and at most %d KiB/s.", MaxRateKiB)
	case r.BurstKiB < 0 || r.BurstKiB > 1<<22:
		c.Add(field, "A burst is at most %d KiB.", 1<<22)
	}
}

// Text returns the port group's settings as text.
func (g PortGroup) Text() string {
	var out []string
	if g.VLAN != nil {
		out = append(out, g.VLAN.Text())
	}
	if g.ToGuest != nil {
		out = append(out, "to guests "+g.ToGuest.Text())
	}
	if g.FromGuest != nil {
		out = append(out, "from guests "+g.FromGuest.Text())
	}
	if n := len(g.SecurityGroups); n > 0 {
		out = append(out, "NICs in "+CountWithUnit(n, securityGroupWord))
	}
	if g.AntiSpoofing != nil {
		out = append(out, map[bool]string{true: "anti-spoofing on", false: "anti-spoofing off"}[*g.AntiSpoofing])
	}
	if g.Restricted {
		out = append(out, "restricted")
	}
	if len(out) == 0 {
		return "no limits"
	}
	return strings.Join(out, ", ")
}

// Text returns the tags as text: "VLAN 20", or "trunk 20, 30, untagged 10".
func (v VLAN) Text() string {
	if len(v.Trunk) == 0 {
		return "VLAN " + strconv.Itoa(v.ID)
	}
	ids := make([]string, len(v.Trunk))
	for i, id := range v.Trunk {
		ids[i] = strconv.Itoa(id)
	}
	out := "trunk " + strings.Join(ids, ", ")
	if v.ID != 0 {
		out += ", untagged " + strconv.Itoa(v.ID)
	}
	return out
}

// Text returns the limits as text: "1024 KiB/s, peak 2048 KiB/s, burst 512 KiB".
func (r Rate) Text() string {
	out := strconv.Itoa(r.AverageKiB) + " KiB/s"
	if r.PeakKiB > 0 {
		out += ", peak " + strconv.Itoa(r.PeakKiB) + " KiB/s"
	}
	if r.BurstKiB > 0 {
		out += ", burst " + strconv.Itoa(r.BurstKiB) + " KiB"
	}
	return out
}

// PortGroupUse is a port group as the API and pages show it.
type PortGroupUse struct {
	PortGroup
	VMs    int            `json:"vms"`    // VMs with a NIC on the port group
	Grants []NetworkGrant `json:"grants"` // grants that the user may see
}

// OpenToProject reports whether VMs of the project may use the network.
func (v NetworkView) OpenToProject(project ProjectID) bool {
	return GrantedTo(project, v.Grants)
}
