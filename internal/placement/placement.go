// Package placement decides which host a VM goes to. It is pure: it gets the hosts as they are and answers with a choice
// and, for every host that it refused, the reason.
package placement

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"quantix/internal/fleet"
)

// Host is a host as placement sees it.
type Host struct {
	ID            fleet.HostID
	Name          string
	Phase         fleet.HostPhase
	Error         string // why its hypervisor does not answer
	MemoryMiB     int64
	CommittedMiB  int64 // of all VMs placed there, running or not
	CommittedCPUs int64 // likewise, vCPUs
	Processors    int   // that vCPUs can run on
	ReservedCPU   int64 // of them, for all VMs placed there, running or not: percent of one
	Taints        []string
	Firmwares     []fleet.Firmware
	HugePages     []fleet.HugePages
	Parts         []string          // the parts of a VM that its agent knows, and
	Lacks         map[string]string // those that it cannot have, with the reason as a sentence
	Devices       map[string]Device // of those that the spec asks for, the ones that it has
	NoModel       bool              // it says that its guests cannot have the CPU model that the spec names
	Networks      []string          // "libvirt:<name>" and "bridge:<device>", active ones
	Pools         map[fleet.PoolID]Pool
	Volumes       map[fleet.Volref]fleet.Volume // of those that the VM's spec names, the ones that are there
	Apart         map[fleet.Volref]string       // of local pools' volumes that VMs share, one of another host that has it
	Images        map[int]Image                 // what disks that name an image of the library are made from there, by their place in the spec
	NICs          map[fleet.NetworkID]*NICs     // of the networks whose cards take something of the host each for itself; those on one device share one
	Limited       map[int]bool                  // the NICs of the VM's spec, by their place in it, whose port group limits their bandwidth
	Overcommit    bool                          // its pools, memory and processors may be promised more than they have
	Labels        map[string]string
	Rules         *Ruling // what it is for the VM's placement rules; nil: nobody asks
}

// Device is a device of a host that a guest could have for itself.
type Device struct {
	VM    string // that has it; empty: none
	Stays bool   // the host cannot give it away: it has no IOMMU group

	VMs, Max int    // of one that several VMs can have: how many have one, and how many can
	Busy     string // what the host itself does with it, as the end of "it is …"; empty: nothing
}

// Image is a version of an image of the library, as a host can make a disk from it.
type Image struct {
	Name          string
	CapacityBytes int64
	Why           string // why the host cannot, in a phrase; empty: it can
	Plain         string // the same without the host's name
	Later         bool   // it has to be copied there first
}

// Pool is a pool on one host.
type Pool struct {
	Name     string
	Assigned bool
	State    fleet.PoolState
	Error    string // the host's own words

	CapacityBytes int64 // 0: the host does not say
	FreeBytes     int64 // promised to no volume
}

// Choice is what Place decided. Host is nil where no host fits.
type Choice struct {
	Host    *Host
	Refused []Refusal // by host name
}

// Refusal is why a host was not taken: the first reason that was found.
type Refusal struct {
	HostID   fleet.HostID
	HostName string
	Fault
}

// Fault is what keeps a VM from a host, at the field of the VM that asks for it.
type Fault struct {
	Field   string
	Message string // names the host, and says it in the host's own words where there are any
	Plain   string // a phrase without either, the same for all hosts that lack the same: "no UEFI firmware"
	Room    bool   // a pool or the host is too small, which who may overcommit may wish all the same: see Host.Overcommit
}

// Place chooses among the fitting hosts: the one that breaks the fewest preferred rules, then one to which no image has to be copied first, then the
// one that has the most memory left; among equals the first by name.
func Place(spec fleet.VMSpec, hosts []Host) Choice {
	var c Choice
	for i := range hosts {
		h := &hosts[i]
		if fault := refuse(spec, *h); fault != nil {
			c.Refused = append(c.Refused, Refusal{h.ID, h.Name, *fault})
			continue
		}
		if c.Host == nil || cmp.Or(len(c.Host.Strains(spec.Rules))-len(h.Strains(spec.Rules)), c.Host.later()-h.later(), cmp.Compare(h.free(), c.Host.free()), strings.Compare(c.Host.Name, h.Name)) > 0 {
			c.Host = h
		}
	}
	slices.SortFunc(c.Refused, func(a, b Refusal) int { return strings.Compare(a.HostName, b.HostName) })
	return c
}

// later is 1 where an image has to be copied to the host first.
func (h Host) later() int {
	for _, image := range h.Images {
		if image.Later {
			return 1
		}
	}
	return 0
}

// Why is a sentence that names the refused hosts with their reasons, at most limit of them.
func (c Choice) Why(limit int) string {
	if len(c.Refused) == 0 {
		return "There is no host yet. Add one first."
	}
	parts := make([]string, len(c.Refused))
	for i, r := range c.Refused {
		parts[i] = r.HostName + ": " + strings.TrimSuffix(r.Message, ".")
	}
	return why(parts, limit)
}

// WhyPlain is Why for those who are to see no hosts: how many lack what, the most first.
func (c Choice) WhyPlain(limit int) string {
	if len(c.Refused) == 0 {
		return "There is no host yet. Ask an administrator to add one."
	}
	lack := map[string]int{}
	for _, r := range c.Refused {
		lack[r.Plain]++
	}
	most := slices.SortedFunc(maps.Keys(lack), func(a, b string) int { return cmp.Or(lack[b]-lack[a], strings.Compare(a, b)) })
	parts := make([]string, len(most))
	for i, plain := range most {
		if parts[i] = "1 host: " + plain; lack[plain] > 1 {
			parts[i] = fmt.Sprintf("%d hosts: %s", lack[plain], plain)
		}
	}
	return why(parts, limit)
}

func why(parts []string, limit int) string {
	if more := len(parts) - limit; more > 0 {
		parts = append(parts[:limit:limit], fmt.Sprintf("and %d more", more))
	}
	return "No host can take this VM. " + strings.Join(parts, "; ") + "."
}

func refuse(spec fleet.VMSpec, h Host) *Fault {
	if faults := Fit(spec, h); len(faults) > 0 {
		return &faults[0]
	}
	if faults := Uncommitted(spec, h); len(faults) > 0 {
		return &faults[0]
	}
	return Unreserved(spec, h)
}

// Fit lists what keeps the VM from this very host, each at the field of the VM that asks for it. Memory and processors that are promised
// to other VMs are no such fault: ask Uncommitted too.
func Fit(spec fleet.VMSpec, h Host) []Fault {
	f := fit{host: h}
	if f.away(); len(f.faults) > 0 {
		return f.faults
	}
	if int64(spec.MemoryMiB) > h.MemoryMiB {
		f.add("spec.memoryMiB", noMemory, "%s has %d MiB of memory in all.", h.Name, h.MemoryMiB)
	}
	if !slices.Contains(h.Firmwares, spec.Firmware) {
		firmware := strings.ToUpper(string(spec.Firmware))
		f.add("spec.firmware", "no "+firmware+" firmware", "%s has no %s firmware.", h.Name, firmware)
	}
	f.hugePages(spec)
	if model := spec.NamedModel(); model != "" && h.NoModel {
		f.add("spec.cpu.model", "no CPU model "+model, "%s cannot give guests the CPU model %s. Its page lists those that it can.", h.Name, model)
	}
	f.rules(spec)
	f.parts(spec)
	for i, d := range spec.Disks {
		f.disk(d, fmt.Sprintf("spec.disks[%d]", i))
		f.image(i, d, fmt.Sprintf("spec.disks[%d]", i))
	}
	for _, m := range spec.Media() {
		f.medium(m)
	}
	for i, d := range spec.HostDevices {
		f.device(d, fmt.Sprintf("spec.hostDevices[%d].device", i))
	}
	for i, n := range spec.NICs {
		f.nic(n, fmt.Sprintf("spec.nics[%d]", i))
		f.portGroup(i, n)
	}
	f.cards(spec.NICs)
	f.room(spec.Disks)
	return f.faults
}

// FitDisks lists what keeps volumes of that size from this very host, likewise.
func FitDisks(disks []fleet.Disk, h Host) []Fault {
	f := fit{host: h}
	if f.away(); len(f.faults) > 0 {
		return f.faults
	}
	for i, d := range disks {
		f.disk(d, fmt.Sprintf("spec.disks[%d]", i))
	}
	f.room(disks)
	return f.faults
}

// FitParts lists what of the spec's parts this very host cannot give, likewise.
func FitParts(spec fleet.VMSpec, h Host) []Fault {
	f := fit{host: h}
	f.parts(spec)
	return f.faults
}

type fit struct {
	host   Host
	faults []Fault
}

func (f *fit) add(field, plain, format string, args ...any) {
	f.faults = append(f.faults, Fault{Field: field, Plain: plain, Message: fmt.Sprintf(format, args...)})
}

func (f *fit) parts(spec fleet.VMSpec) {
	for _, p := range spec.Used() {
		why, lacks := f.host.Lacks[p.Name]
		whyValue, lacksValue := f.host.Lacks[p.Name+"="+p.Value]
		switch {
		case !slices.Contains(f.host.Parts, p.Name):
			f.add("spec."+p.At, "an agent that is too old for "+p.Type, "The agent of %s is too old for this: %s. Update it.", f.host.Name, p.Type)
		case lacksValue:
			f.add("spec."+p.At, "no "+p.Type+" "+p.Value, "%s cannot give a VM this %s: %s. %s", f.host.Name, p.Type, p.Value, whyValue)
		case lacks:
			f.add("spec."+p.At, "no "+p.Type, "%s cannot give a VM this: %s. %s", f.host.Name, p.Type, why)
		}
	}
}

// hugePages notes where the host has not as many as the VM's memory takes. Whether they are free shows when it starts: they come and go with guests.
func (f *fit) hugePages(spec fleet.VMSpec) {
	size := int64(spec.Memory.HugePageKiB)
	if size <= 0 {
		return
	}
	const at = "spec.memory.hugePageKiB"
	needs := (int64(spec.MemoryMiB)<<10 + size - 1) / size
	i := slices.IndexFunc(f.host.HugePages, func(p fleet.HugePages) bool { return p.SizeKiB == size && p.Total > 0 })
	switch {
	case i < 0:
		f.add(at, fmt.Sprintf("no huge pages of %d KiB", size), "%s has no huge pages of %d KiB.", f.host.Name, size)
	case f.host.HugePages[i].Total < needs:
		f.add(at, fmt.Sprintf("too few huge pages of %d KiB", size), "%s has %d huge pages of %d KiB, and the VM needs %d.", f.host.Name, f.host.HugePages[i].Total, size, needs)
	}
}

func (f *fit) away() {
	switch h := f.host; h.Phase {
	case fleet.HostOnline:
	case fleet.HostDegraded:
		f.add("hostId", "no answer from the hypervisor", "The hypervisor of %s does not answer: %s", h.Name, h.Error)
	case fleet.HostConflict:
		f.add("hostId", "two agents with one identity", "A second agent shows the identity of %s. Clear that first.", h.Name)
	case fleet.HostPending:
		f.add("hostId", "no report yet", "%s has not reported yet.", h.Name)
	default:
		f.add("hostId", "not heard", "%s is not heard.", h.Name)
	}
}

func (f *fit) disk(d fleet.Disk, at string) {
	if p := f.host.Pools[d.PoolID]; f.pool(d.PoolID, at+".poolId") && p.Error != "" { // its ISOs and images can be read all the same
		f.add(at+".poolId", "pool "+p.Name+" is degraded", "Pool %s is degraded on %s: %s", p.Name, f.host.Name, p.Error)
	}
	if d.Existing && f.host.Pools[d.PoolID].State == fleet.PoolActive && f.volume(d.Ref(), at+".volume") {
		f.existing(d, at+".volume")
	}
	if d.Image == nil || !f.pool(d.Image.PoolID, at+".image.poolId") || !f.volume(*d.Image, at+".image.volume") {
		return
	}
	switch image := f.host.Volumes[*d.Image]; {
	case !image.IsImage():
		f.add(at+".image.volume", fmt.Sprintf("no image %q to clone", image.Name), "Disks cannot be cloned from %s: an image is a qcow2 or raw volume without a backing file.", image.Name)
	case d.SizeBytes != 0 && d.SizeBytes < image.CapacityBytes:
		f.add(at+".sizeBytes", fmt.Sprintf("image %q is larger than the disk", image.Name), "The image %s has %d bytes; give 0 or at least as many.", image.Name, image.CapacityBytes)
	}
}

// existing notes where a volume that is there can be no disk.
func (f *fit) existing(d fleet.Disk, at string) {
	switch v := f.host.Volumes[d.Ref()]; {
	case d.Shareable && !v.IsShareable():
		f.add(at, fmt.Sprintf("volume %q is not raw", d.Volume), "%s is no raw volume, which alone several VMs can have at once.", d.Volume)
	case !d.Shareable && v.Format != fleet.FormatLUN:
		f.add(at, fmt.Sprintf("volume %q is no LUN", d.Volume), "%s is no LUN that a disk could be.", d.Volume)
	case f.host.Apart[d.Ref()] != "":
		f.add(at, fmt.Sprintf("volume %q is another host's", d.Volume), "%s is shared with the VM %s, which is on another host than %s, and pool %s is each host's own. Choose that host, or a shared pool.",
			d.Volume, f.host.Apart[d.Ref()], f.host.Name, f.host.Pools[d.PoolID].Name)
	}
}

// image notes where the host cannot make the disk from an image of the library.
func (f *fit) image(i int, d fleet.Disk, at string) {
	image, asked := f.host.Images[i]
	switch {
	case !asked:
	case image.Why != "":
		f.add(at+".imageId", image.Plain, "%s", image.Why)
	case d.SizeBytes != 0 && d.SizeBytes < image.CapacityBytes:
		f.add(at+".sizeBytes", fmt.Sprintf("image %q is larger than the disk", image.Name), "The image %s has %d bytes; give 0 or at least as many.", image.Name, image.CapacityBytes)
	}
}

// room notes pools that are too small for the new disks if every volume grew to its full size, at the first disk in each.
func (f *fit) room(disks []fleet.Disk) {
	wanted := map[fleet.PoolID]int64{}
	for i, d := range disks {
		size := d.SizeBytes
		if d.Image != nil {
			size = max(size, f.host.Volumes[*d.Image].CapacityBytes)
		}
		size = max(size, f.host.Images[i].CapacityBytes)
		wanted[d.PoolID] += size
	}
	for i, d := range disks {
		p, size := f.host.Pools[d.PoolID], wanted[d.PoolID]
		delete(wanted, d.PoolID)
		if f.host.Overcommit || p.State != fleet.PoolActive || p.CapacityBytes == 0 || size <= p.FreeBytes {
			continue
		}
		f.faults = append(f.faults, Fault{
			Field: fmt.Sprintf("spec.disks[%d].sizeBytes", i), Room: true, Plain: "no room for " + fleet.Bytes(size) + " in pool " + p.Name,
			Message: fmt.Sprintf("Pool %s on %s has %s that are promised to no volume, and the new disks may grow to %s.", p.Name, f.host.Name, fleet.Bytes(max(0, p.FreeBytes)), fleet.Bytes(size)),
		})
	}
}

// pool notes where the pool is not ready on the host, with the host's own words.
func (f *fit) pool(id fleet.PoolID, field string) bool {
	p, ok := f.host.Pools[id]
	state := strings.ToLower(p.State.Word())
	switch {
	case !ok || p.Name == "":
		f.add(field, "no such pool", "There is no such pool.")
	case !p.Assigned:
		f.add(field, "no pool "+p.Name, "Pool %s is not assigned to %s.", p.Name, f.host.Name)
	case p.State == fleet.PoolActive:
		return true
	case p.Error != "":
		f.add(field, "pool "+p.Name+" is "+state, "Pool %s is %s on %s: %s", p.Name, state, f.host.Name, p.Error)
	default:
		f.add(field, "pool "+p.Name+" is "+state, "Pool %s is %s on %s.", p.Name, state, f.host.Name)
	}
	return false
}

func (f *fit) volume(ref fleet.Volref, field string) bool {
	_, ok := f.host.Volumes[ref]
	if !ok {
		pool := f.host.Pools[ref.PoolID].Name
		f.add(field, fmt.Sprintf("no volume %q in pool %s", ref.Volume, pool), "Pool %s has no volume %q on %s.", pool, ref.Volume, f.host.Name)
	}
	return ok
}

func (f *fit) nic(n fleet.NIC, at string) {
	switch {
	case n.Network != "" && !slices.Contains(f.host.Networks, "libvirt:"+n.Network):
		f.add(at+".network", fmt.Sprintf("no active network %q", n.Network), "%s has no active network %q.", f.host.Name, n.Network)
	case n.Bridge != "" && !slices.Contains(f.host.Networks, "bridge:"+n.Bridge):
		f.add(at+".bridge", fmt.Sprintf("no bridge %q", n.Bridge), "%s has no bridge %q.", f.host.Name, n.Bridge)
	}
}
