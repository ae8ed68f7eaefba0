package agent

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"sync"
	"time"

	"quantix/agent/hypervisor"
	"quantix/agent/state"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// stateFile is the agent's persistent state, which the hypervisor does not store: the applied generation of each VM,
// the error of its last failed job, and the disks that the agent created. Its methods are safe for concurrent use.
type stateFile struct {
	path string
	mu   sync.Mutex
	data savedState
	// jobEntryAt holds the time when a job last wrote the entry of a VM or network (by ID) or of a pool (by name).
	// Reads of the host do not change it: see hasJobEntrySince.
	jobEntryAt map[any]time.Time
}

type savedState struct {
	VMs   map[fleet.VMID]vmState `json:"vms"`
	Pools map[string]string      `json:"pools"` // by name: error of the last failure
	// Networks are the networks that jobs have applied and not released.
	Networks map[fleet.NetworkID]networkState `json:"networks,omitempty"`
	// Volumes are the files created by the newest volume jobs. A repeated job recognizes its own file by the entry.
	Volumes []createdVolume `json:"volumes,omitempty"`
	// Sent are the disks of VMs that migrate to other hosts. A repeated job compares the stored stamp to detect whether
	// a disk has changed since the disk was sent.
	Sent []sentDisk `json:"sent,omitempty"`
	// Hashed are checksums of volumes, oldest first.
	Hashed []hypervisor.VolumeChecksum `json:"hashed,omitempty"`
	// Frozen are guests that this agent has frozen or is about to freeze. The agent thaws them even after a restart.
	Frozen []fleet.VMID `json:"frozen,omitempty"`
	// Maintenance: the portal's last answer named the host as in maintenance.
	Maintenance bool `json:"maintenance,omitempty"`
}

type networkState struct {
	Error        string `json:"error,omitempty"` // error of the last failure
	ActiveInBoot string `json:"ran,omitempty"`   // the host boot when the network was last seen active
}

// createdVolume is the file that a job created, as identified by the backend.
type createdVolume struct {
	Job  fleet.JobID `json:"job"`
	File string      `json:"file"`
}

// maxVolumes is the number of stored volume files, far above the number of concurrent volume jobs.
const maxVolumes = 128

func openStateFile(path string) (*stateFile, error) {
	m := &stateFile{path: path, jobEntryAt: map[any]time.Time{}}
	data, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	default:
		if err := json.Unmarshal(data, &m.data); err != nil {
			return nil, fmt.Errorf("read %s: %w; remove the file to start without it", path, err)
		}
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(path), state.PoolBookFile)); errors.Is(err, fs.ErrNotExist) {
		// The state file is from an older agent without pool records (state.PoolRecords), so this agent cannot retry a pool
		// that has failed. If no pool errors are reported, the portal applies those pools again.
		m.data.Pools = nil
	}
	if m.data.VMs == nil {
		m.data.VMs = map[fleet.VMID]vmState{}
	}
	if m.data.Pools == nil {
		m.data.Pools = map[string]string{}
	}
	if m.data.Networks == nil {
		m.data.Networks = map[fleet.NetworkID]networkState{}
	}
	return m, nil
}

// maxReadDuration exceeds the duration of any read of the host, so a read that begins now ends after every entry that
// is older than maxReadDuration.
const maxReadDuration = time.Hour

// hasJobEntrySince reports whether a job wrote the object's entry after a read of the host began. The read is then older
// than the entry and is ignored.
func (m *stateFile) hasJobEntrySince(of any, begun time.Time) bool {
	return !m.jobEntryAt[of].Before(begun)
}

// setVMResult records the result of a job for a generation of the VM; errText is empty after a success. powerChanged: a
// successful job has powered the guest on or off.
func (m *stateFile) setVMResult(vm fleet.VM, generation int64, kind fleet.JobKind, errText string, powerChanged bool, boot string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.jobEntryAt[vm.ID] = time.Now()
	old := m.data.VMs[vm.ID]
	next := old
	next.Name, next.Generation, next.Error, next.ErrorOf = cmp.Or(vm.Name, old.Name), max(old.Generation, generation), errText, ""
	if errText == "" {
		next.recordSuccess(kind, powerChanged, boot)
	} else {
		next.ErrorOf = kind
	}
	if kind.Info().AppliesSpec {
		next.Recycled = false
	}
	if errText == "" && kind.Info().AppliesSpec {
		next.Generation = generation // lower than before if the portal's database was restored
		next.AppliedGeneration, next.Policy, next.Checks = generation, vm.Spec.Policy, slices.Clone(vm.Spec.Health)
		next.CreatedDisks = slices.DeleteFunc(slices.Clone(old.CreatedDisks), func(r fleet.Volref) bool {
			return !slices.ContainsFunc(vm.Spec.Disks, func(d fleet.Disk) bool { return d.Ref() == r })
		})
	}
	if reflect.DeepEqual(next, old) {
		return nil
	}
	m.data.VMs[vm.ID] = next
	return m.save()
}

// recordVMBegun records a VM before a job writes the new generation into the definition, so that the generation of an
// interrupted job does not count as a success.
func (m *stateFile) recordVMBegun(vm fleet.VM) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.jobEntryAt[vm.ID] = time.Now()
	if _, ok := m.data.VMs[vm.ID]; ok {
		return nil
	}
	m.data.VMs[vm.ID] = vmState{Name: vm.Name}
	return m.save()
}

// recordCreatedDisk records a disk whose content is complete.
func (m *stateFile) recordCreatedDisk(vm fleet.VM, ref fleet.Volref) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.data.VMs[vm.ID]
	if slices.Contains(k.CreatedDisks, ref) {
		return nil
	}
	k.Name, k.CreatedDisks = vm.Name, append(slices.Clone(k.CreatedDisks), ref)
	m.data.VMs[vm.ID] = k
	return m.save()
}

// recordCreatedVolume records the file that a job has completed.
func (m *stateFile) recordCreatedVolume(job fleet.JobID, file string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.data.Volumes = append(slices.Clone(m.data.Volumes), createdVolume{job, file})
	m.data.Volumes = m.data.Volumes[max(0, len(m.data.Volumes)-maxVolumes):]
	return m.save()
}

// createdVolumeFile returns the file that a job created; empty: none.
func (m *stateFile) createdVolumeFile(job fleet.JobID) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, v := range slices.Backward(m.data.Volumes) {
		if v.Job == job {
			return v.File
		}
	}
	return ""
}

// createdDisks lists the VM's disks that this agent created.
func (m *stateFile) createdDisks(id fleet.VMID) []fleet.Volref {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.data.VMs[id].CreatedDisks
}

// appliedGeneration returns the VM's last applied generation; 0: unknown.
func (m *stateFile) appliedGeneration(id fleet.VMID) int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.data.VMs[id].AppliedGeneration
}

// removeVM deletes the entry of a deleted VM.
func (m *stateFile) removeVM(id fleet.VMID) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.jobEntryAt[id] = time.Now()
	if _, ok := m.data.VMs[id]; !ok {
		return nil
	}
	delete(m.data.VMs, id)
	return m.save()
}

// setPoolResult records the error of a pool's last failure; empty after a success.
// setMaintenance records whether the host is in maintenance.
func (m *stateFile) setMaintenance(on bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.data.Maintenance == on {
		return nil
	}
	m.data.Maintenance = on
	return m.save()
}

// inMaintenance reports whether the host is in maintenance, as the portal last answered.
func (m *stateFile) inMaintenance() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.data.Maintenance
}

func (m *stateFile) setPoolResult(name, errText string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.jobEntryAt[name] = time.Now()
	if m.data.Pools[name] == errText {
		return nil
	}
	m.data.Pools[name] = errText
	if errText == "" {
		delete(m.data.Pools, name)
	}
	return m.save()
}

// setNetworkResult records the error of a network's last failure. After a success it records that the network is active
// in this boot of the host.
func (m *stateFile) setNetworkResult(n fleet.Network, errText, boot string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.jobEntryAt[n.ID] = time.Now()
	old, known := m.data.Networks[n.ID]
	next := networkState{Error: errText, ActiveInBoot: old.ActiveInBoot}
	if errText == "" {
		next.ActiveInBoot = boot
	}
	if known && old == next {
		return nil
	}
	m.data.Networks[n.ID] = next
	return m.save()
}

// removeNetwork deletes the entry of a released network.
func (m *stateFile) removeNetwork(id fleet.NetworkID) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.jobEntryAt[id] = time.Now()
	if _, ok := m.data.Networks[id]; !ok {
		return nil
	}
	delete(m.data.Networks, id)
	return m.save()
}

func (m *stateFile) save() error {
	data, err := json.Marshal(m.data)
	if err != nil {
		return err
	}
	if err := state.WriteAtomic(m.path, data); err != nil {
		return fmt.Errorf("write the agent's state file: %w", err)
	}
	return nil
}

// addAgentState adds the agent's own data to a host state and sorts it, so that equal states have equal digests. A VM
// whose creation failed is on no host, but its failure must be reported: addAgentState lists the VM as absent.
func (m *stateFile) addAgentState(s *wire.State, boot string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	seen := map[fleet.VMID]bool{}
	for i := range s.VMs {
		vm := &s.VMs[i]
		seen[vm.ID] = true
		k, acted := m.data.VMs[vm.ID]
		if acted { // the job that wrote the stamp may be incomplete
			vm.Generation = k.Generation
		}
		k.addToStatus(&vm.Status, boot)
	}
	for id, k := range m.data.VMs {
		if !seen[id] && k.Error != "" {
			s.VMs = append(s.VMs, wire.VMReport{
				ID: id, Name: k.Name, Generation: k.Generation,
				Status: fleet.VMStatus{Power: fleet.Absent, Error: k.Error, ErrorOf: k.ErrorOf},
			})
		}
	}
	m.addPoolErrors(s)
	m.addNetworkErrors(s, boot)
	slices.SortFunc(s.VMs, func(a, b wire.VMReport) int { return cmp.Compare(a.ID, b.ID) })
	slices.SortFunc(s.Discovered, func(a, b fleet.DiscoveredVM) int { return cmp.Compare(a.ID, b.ID) })
	slices.SortFunc(s.Pools, func(a, b wire.PoolReport) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(s.Networks, func(a, b wire.NetworkReport) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})
}

// addPoolErrors reports a pool's failure until the pool is seen active.
func (m *stateFile) addPoolErrors(s *wire.State) {
	seen := map[string]bool{}
	for i := range s.Pools {
		p := &s.Pools[i]
		seen[p.Name] = true
		if errText := m.data.Pools[p.Name]; errText != "" && p.Status.State == fleet.PoolInactive && !p.Status.StoppedOutside {
			p.Status.State, p.Status.Error = fleet.PoolFailed, errText
		}
	}
	for name, errText := range m.data.Pools {
		if !seen[name] {
			s.Pools = append(s.Pools, wire.PoolReport{Name: name, Status: fleet.PoolStatus{State: fleet.PoolFailed, Error: errText}})
		}
	}
}

// addNetworkErrors reports a network's failure until the network is seen active. An inactive network that was active in
// this boot was stopped on the host.
func (m *stateFile) addNetworkErrors(s *wire.State, boot string) {
	for i := range s.Networks {
		n := &s.Networks[i].Status
		k, ordered := m.data.Networks[s.Networks[i].ID]
		switch {
		case !ordered || n.Active:
		case k.Error != "":
			n.Error = k.Error
		case k.ActiveInBoot != "" && k.ActiveInBoot == boot:
			n.StoppedOutside = true
			if n.Error == hypervisor.NetworkMissingText {
				n.Error = hypervisor.NetworkRemovedText
			}
		}
	}
}

// removeOldEntries deletes entries of VMs that are neither on the host nor failed, so that the file stays small. It
// also deletes errors of pools that are active again. busy names VMs with running jobs; begun is when the read of the
// host began.
func (m *stateFile) removeOldEntries(s wire.State, busy map[fleet.Subject]bool, begun time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	here := map[fleet.VMID]bool{}
	for _, vm := range s.VMs {
		here[vm.ID] = true
	}
	maps.DeleteFunc(m.jobEntryAt, func(_ any, at time.Time) bool { return begun.Sub(at) > maxReadDuration })
	before := len(m.data.VMs) + len(m.data.Pools)
	for _, p := range s.Pools {
		if p.Status.State == fleet.PoolActive && !m.hasJobEntrySince(p.Name, begun) {
			delete(m.data.Pools, p.Name)
		}
	}
	for id, k := range m.data.VMs {
		if k.Error == "" && len(k.CreatedDisks) == 0 && !here[id] && !busy[fleet.SubjectVM(id)] && !m.hasJobEntrySince(id, begun) {
			delete(m.data.VMs, id)
		}
	}
	if len(m.data.VMs)+len(m.data.Pools) == before {
		return nil
	}
	return m.save()
}
