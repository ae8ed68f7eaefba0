// Package placement chooses the host of a VM. It is pure: its input is the hosts' state, its result a choice and the
// reason for every refused host.
package placement

import (
	"fmt"
	"slices"
	"strings"

	"quantix/internal/fleet"
)

// Host is a host's state for placement.
type Host struct {
	ID              fleet.HostID
	Name            string
	Phase           fleet.HostPhase
	Lifecycle       fleet.HostLifecycle
	Error           string // why the host's hypervisor does not answer
	Spec            fleet.HostSpec
	Capacity        fleet.HostCapacity
	CommittedMiB    int64 // memory of all VMs on the host, running or not
	CommittedCPUs   int64 // vCPUs of all VMs on the host, running or not
	DiscoveredMiB   int64 // memory of running discovered VMs
	DiscoveredCPUs  int64 // vCPUs of running discovered VMs
	ReservedCPU     int64 // for all VMs on the host, running or not; percent of one processor
	Firmwares       []fleet.Firmware
	HugePages       []fleet.HugePages
	AgentFields     []string          // VM features that the host's agent supports
	Unsupported     map[string]string // unsupported features, with the reason as a sentence
	Devices         map[string]Device // devices of the spec that the host has
	DeviceClasses   map[fleet.DeviceClassID]DeviceClass
	Cluster         fleet.Cluster // the host's cluster
	CPUModel        string        // named CPU model of the VM on this host: the spec's or, for a new VM, the cluster's baseline
	MissingFeatures []string      // CPU features that the host lacks for CPUModel; nil: it supports the model
	Networks        []string      // active networks and bridges: "libvirt:<name>", "bridge:<device>"
	Pools           map[fleet.PoolID]Pool
	Volumes         map[fleet.Volref]fleet.Volume // volumes of the spec that exist on the host
	SharedElsewhere map[fleet.Volref]string       // shared volumes of local pools, with the other host's VM that uses the volume
	Images          map[int]Image                 // library images of the spec's disks, by disk index
	// NICs contains the networks where each NIC uses a device, or a part of it, exclusively. Networks on one device share
	// one NICCapacity.
	NICs             map[fleet.NetworkID]*NICCapacity
	BandwidthLimited map[int]bool // NICs of the spec, by index, whose port group limits bandwidth
	Overcommit       bool         // pools, memory and processors may be overcommitted
	OvercommitHost   bool         // permits exceeding memory and vCPUs, but not the space of pools
	// Rules is the host's relation to the VM's placement rules. nil: the VM is on the host already, so that neither rules
	// nor the host's taints, roles, cordon and maintenance are checked.
	Rules *HostRules
}

// Device is a host device for passthrough.
type Device struct {
	VM           string // the VM that has the device; empty: none
	NoIOMMUGroup bool   // the device cannot be passed through: no IOMMU group

	VMs, Max int    // for a shareable device: the number of VMs that have one, and the limit
	HostUse  string // the host's own use, as the end of "the disk is …"; empty: none
}

// Image is a version of a library image and its availability on a host.
type Image struct {
	Name          string
	CapacityBytes int64
	Unusable      string // why the host cannot use the image, as a sentence; empty: it can
	UnusablePlain string // Unusable without the host's name
	NeedsCopy     bool   // the image must be copied to the host first
}

// Pool is a pool on one host.
type Pool struct {
	Name     string
	Assigned bool
	State    fleet.PoolState
	Error    string // the host's error text

	CapacityBytes int64 // 0: not reported
	FreeBytes     int64 // space not committed to any volume

	Hidden bool // the actor may not see the pool, so Fault.Plain does not name it
}

// plainName returns the pool's name for Fault.Plain.
func (p Pool) plainName() string {
	if p.Hidden {
		return "pool of the disk"
	}
	return "pool " + p.Name
}

// Fault is a reason why a VM cannot be on a host, at the VM's field that causes it.
type Fault struct {
	Field   string
	Message string // names the host, and includes the host's error text
	// Plain is a phrase without host name and error text, equal for all hosts with the same fault: "no UEFI firmware".
	Plain           string
	Overcommittable bool // a pool or the host is too small; Host.Overcommit permits the VM anyway
}

// specCheck checks a spec on many hosts. It is not safe for concurrent use.
type specCheck struct {
	spec fleet.VMSpec
	used map[string][]fleet.UsedField // VM features in the spec, by its CPU model, because reading them is slow
}

func newSpecCheck(spec fleet.VMSpec) specCheck {
	return specCheck{spec, map[string][]fleet.UsedField{}}
}

func (c specCheck) usedFields(spec fleet.VMSpec) []fleet.UsedField {
	used, known := c.used[spec.CPU.Model]
	if !known {
		used = spec.UsedFields()
		c.used[spec.CPU.Model] = used
	}
	return used
}

func (c specCheck) firstFault(h Host) *Fault {
	if faults := c.faults(h); len(faults) > 0 {
		return &faults[0]
	}
	if faults := OvercommitFaults(c.spec, h); len(faults) > 0 {
		return &faults[0]
	}
	return ReservedCPUFault(c.spec, h)
}

// Faults lists the VM's faults on this host, each at the VM's field that causes it. It does not check committed memory
// and processors: call OvercommitFaults too.
func Faults(spec fleet.VMSpec, h Host) []Fault { return newSpecCheck(spec).faults(h) }

func (c specCheck) faults(h Host) []Fault {
	spec := c.spec
	f := faultCheck{host: h}
	if f.checkHostOnline(); len(f.faults) > 0 {
		return f.faults
	}
	if int64(spec.MemoryMiB) > h.Capacity.MemoryMiB {
		f.addFault("spec.memoryMiB", noMemoryText, "%s has %s MiB of memory in all; this VM needs %s.", h.Name, fleet.FormatCount(h.Capacity.MemoryMiB), fleet.FormatCount(int64(spec.MemoryMiB)))
	}
	if !slices.Contains(h.Firmwares, spec.Firmware) {
		firmware := strings.ToUpper(string(spec.Firmware))
		f.addFault("spec.firmware", "no "+firmware+" firmware", "%s has no %s firmware.", h.Name, firmware)
	}
	f.checkHugePages(spec)
	role, hint := "CPU model", " The host's page lists the supported models."
	if spec.CPU.Model == "" && h.CPUModel != "" {
		spec.CPU.Model = h.CPUModel // so that checkFields refuses an agent that is too old for CPU models
		role, hint = "cluster's baseline", " Choose another CPU model or host."
	}
	if h.CPUModel != "" && h.MissingFeatures != nil {
		gap := fleet.CPUModelGap{Model: h.CPUModel, Missing: h.MissingFeatures}
		f.addFault("spec.cpu.model", "no CPU model "+h.CPUModel, "%s%s", gap.Text(h.Name, role), hint)
	}
	f.checkRules(spec)
	f.checkFields(c.usedFields(spec))
	f.checkDeviceClasses(spec)
	for i, d := range spec.Disks {
		f.checkDisk(d, fmt.Sprintf("spec.disks[%d]", i))
		f.checkImage(i, d, fmt.Sprintf("spec.disks[%d]", i))
	}
	for _, m := range spec.Media() {
		f.checkMedium(m)
	}
	for i, d := range spec.HostDevices {
		f.checkDevice(d, fmt.Sprintf("spec.hostDevices[%d].device", i))
	}
	for i, n := range spec.NICs {
		f.checkNIC(n, fmt.Sprintf("spec.nics[%d]", i))
		f.checkPortGroup(i, n)
	}
	f.checkExclusiveNICs(spec.NICs)
	f.checkPoolSpace(spec.Disks)
	return f.faults
}

// DiskFaults lists the faults of these disks on this host.
func DiskFaults(disks []fleet.Disk, h Host) []Fault {
	f := faultCheck{host: h}
	if f.checkHostOnline(); len(f.faults) > 0 {
		return f.faults
	}
	for i, d := range disks {
		f.checkDisk(d, fmt.Sprintf("spec.disks[%d]", i))
	}
	f.checkPoolSpace(disks)
	return f.faults
}

// FieldFaults lists the VM features in the spec that this host does not support.
func FieldFaults(spec fleet.VMSpec, h Host) []Fault {
	f := faultCheck{host: h}
	f.checkFields(spec.UsedFields())
	return f.faults
}

type faultCheck struct {
	host   Host
	faults []Fault
}

func (f *faultCheck) addFault(field, plain, format string, args ...any) {
	f.faults = append(f.faults, Fault{Field: field, Plain: plain, Message: fmt.Sprintf(format, args...)})
}

func (f *faultCheck) checkFields(used []fleet.UsedField) {
	for _, p := range used {
		why, lacks := f.host.Unsupported[p.Name]
		whyValue, lacksValue := f.host.Unsupported[p.Name+"="+p.Value]
		switch {
		case !slices.Contains(f.host.AgentFields, p.Name):
			f.addFault("spec."+p.At, "an agent that is too old for "+p.Type, "The agent of %s is too old for this: %s. Update the agent.", f.host.Name, p.Type)
		case lacksValue:
			f.addFault("spec."+p.At, "no "+p.Type+" "+p.Value, "%s does not support this %s: %s. %s", f.host.Name, p.Type, p.Value, whyValue)
		case lacks:
			f.addFault("spec."+p.At, "no "+p.Type, "%s does not support this: %s. %s", f.host.Name, p.Type, why)
		}
	}
}

// checkHugePages adds a fault if the host has fewer huge pages than the VM's memory needs. Free pages are not checked:
// they change with running guests.
func (f *faultCheck) checkHugePages(spec fleet.VMSpec) {
	size := int64(spec.Memory.HugePageKiB)
	if size <= 0 {
		return
	}
	const at = "spec.memory.hugePageKiB"
	needs := (int64(spec.MemoryMiB)<<10 + size - 1) / size
	i := slices.IndexFunc(f.host.HugePages, func(p fleet.HugePages) bool { return p.SizeKiB == size && p.Total > 0 })
	switch {
	case i < 0:
		f.addFault(at, fmt.Sprintf("no huge pages of %d KiB", size), "%s has no huge pages of %d KiB.", f.host.Name, size)
	case f.host.HugePages[i].Total < needs:
		f.addFault(at, fmt.Sprintf("too few huge pages of %d KiB", size), "%s has %d huge pages of %d KiB, and the VM needs %d.", f.host.Name, f.host.HugePages[i].Total, size, needs)
	}
}

func (f *faultCheck) checkHostOnline() {
	if h := f.host; h.Rules != nil && h.Lifecycle.InMaintenance() {
		if why := h.Lifecycle.Refusal(fleet.HostPlaceVM, h.Name); why != "" {
			f.addFault("hostId", "in maintenance", "%s", why)
			return
		}
	}
	switch h := f.host; h.Phase {
	case fleet.HostOnline:
	case fleet.HostDegraded:
		f.addFault("hostId", "no answer from the hypervisor", "The hypervisor of %s does not answer: %s", h.Name, h.Error)
	case fleet.HostConflict:
		f.addFault("hostId", "two agents with one identity", "A second agent shows the identity of %s. Clear the conflict first.", h.Name)
	case fleet.HostPending:
		f.addFault("hostId", "no report yet", "%s has not reported yet.", h.Name)
	default:
		f.addFault("hostId", "offline", "%s is offline.", h.Name)
	}
}

func (f *faultCheck) checkDisk(d fleet.Disk, at string) {
	// A degraded pool must not get new disks, but its ISOs and images can still be read.
	if p := f.host.Pools[d.PoolID]; f.requireReadyPool(d.PoolID, at+".poolId") && p.Error != "" {
		f.addFault(at+".poolId", p.plainName()+" is degraded", "Pool %s is degraded on %s: %s", p.Name, f.host.Name, p.Error)
	}
	if d.Existing && f.host.Pools[d.PoolID].State == fleet.PoolActive && f.requireVolume(d.Ref(), at+".volume") {
		f.checkExistingVolume(d, at+".volume")
	}
	if d.Image == nil || !f.requireReadyPool(d.Image.PoolID, at+".image.poolId") || !f.requireVolume(*d.Image, at+".image.volume") {
		return
	}
	switch image := f.host.Volumes[*d.Image]; {
	case !image.IsImage():
		f.addFault(at+".image.volume", fmt.Sprintf("no image %q to clone", image.Name), "Disks cannot be cloned from %s: an image is a qcow2 or raw volume without a backing file.", image.Name)
	case d.SizeBytes != 0 && d.SizeBytes < image.CapacityBytes:
		f.addFault(at+".sizeBytes", fmt.Sprintf("image %q is larger than the disk", image.Name), "The image %s has %d bytes; give 0 or at least as many.", image.Name, image.CapacityBytes)
	}
}

// checkExistingVolume adds a fault if an existing volume cannot be this disk.
func (f *faultCheck) checkExistingVolume(d fleet.Disk, at string) {
	switch v := f.host.Volumes[d.Ref()]; {
	case d.Shareable && !v.IsShareable():
		f.addFault(at, fmt.Sprintf("volume %q is not raw", d.Volume), "%s is not a raw volume. Several VMs can share only a raw volume.", d.Volume)
	case !d.Shareable && v.Format != fleet.FormatLUN:
		f.addFault(at, fmt.Sprintf("volume %q is no LUN", d.Volume), "%s is not a LUN. Only a LUN can be attached as a disk.", d.Volume)
	case f.host.SharedElsewhere[d.Ref()] != "":
		f.addFault(at, fmt.Sprintf("volume %q is another host's", d.Volume), "%s is shared with the VM %s, which is not on %s, and pool %s is local to each host. Choose the other VM's host, or a shared pool.",
			d.Volume, f.host.SharedElsewhere[d.Ref()], f.host.Name, f.host.Pools[d.PoolID].Name)
	}
}

// checkImage adds a fault if the host cannot create the disk from a library image.
func (f *faultCheck) checkImage(i int, d fleet.Disk, at string) {
	image, listed := f.host.Images[i]
	switch {
	case !listed:
	case image.Unusable != "":
		f.addFault(at+".imageId", image.UnusablePlain, "%s", image.Unusable)
	case d.SizeBytes != 0 && d.SizeBytes < image.CapacityBytes:
		f.addFault(at+".sizeBytes", fmt.Sprintf("image %q is larger than the disk", image.Name), "The image %s has %d bytes; give 0 or at least as many.", image.Name, image.CapacityBytes)
	}
}

// checkPoolSpace adds a fault at the first new disk of each pool that could not hold all volumes at their full size.
func (f *faultCheck) checkPoolSpace(disks []fleet.Disk) {
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
			Field: fmt.Sprintf("spec.disks[%d].sizeBytes", i), Overcommittable: true, Plain: "no room for " + fleet.FormatBytes(size) + " in " + p.plainName(),
			Message: fmt.Sprintf("Pool %s on %s has %s not provisioned to volumes, and the new disks may grow to %s.", p.Name, f.host.Name, fleet.FormatBytes(max(0, p.FreeBytes)), fleet.FormatBytes(size)),
		})
	}
}

// requireReadyPool reports whether the pool is ready on the host. If not, it adds a fault with the host's error text.
func (f *faultCheck) requireReadyPool(id fleet.PoolID, field string) bool {
	p, ok := f.host.Pools[id]
	state := strings.ToLower(p.State.DisplayName())
	switch {
	case !ok || p.Name == "":
		f.addFault(field, "no such pool", "There is no such pool.")
	case !p.Assigned:
		f.addFault(field, "no "+p.plainName(), "Pool %s is not assigned to %s.", p.Name, f.host.Name)
	case p.State == fleet.PoolActive:
		return true
	case p.Error != "":
		f.addFault(field, p.plainName()+" is "+state, "Pool %s is %s on %s: %s", p.Name, state, f.host.Name, p.Error)
	default:
		f.addFault(field, p.plainName()+" is "+state, "Pool %s is %s on %s.", p.Name, state, f.host.Name)
	}
	return false
}

func (f *faultCheck) requireVolume(ref fleet.Volref, field string) bool {
	_, ok := f.host.Volumes[ref]
	if !ok {
		pool := f.host.Pools[ref.PoolID]
		f.addFault(field, fmt.Sprintf("no volume %q in %s", ref.Volume, pool.plainName()), "Pool %s has no volume %q on %s.", pool.Name, ref.Volume, f.host.Name)
	}
	return ok
}

func (f *faultCheck) checkNIC(n fleet.NIC, at string) {
	switch {
	case n.Network != "" && !slices.Contains(f.host.Networks, "libvirt:"+n.Network):
		f.addFault(at+".network", fmt.Sprintf("no active network %q", n.Network), "%s has no active network %q.", f.host.Name, n.Network)
	case n.Bridge != "" && !slices.Contains(f.host.Networks, "bridge:"+n.Bridge):
		f.addFault(at+".bridge", fmt.Sprintf("no bridge %q", n.Bridge), "%s has no bridge %q.", f.host.Name, n.Bridge)
	}
}
