package fleet

import "slices"

// BaselineModel requests the newest CPU model that all hosts support. When the VM is saved, the portal replaces it by
// the name of that model.
const BaselineModel = "baseline"

// NamedCPUModel returns the VM's CPU model if it names a libvirt model. It is empty for CPU modes that every host
// supports.
func (s VMSpec) NamedCPUModel() string {
	if isNamedCPUModel(s.CPU.Model) {
		return s.CPU.Model
	}
	return ""
}

func isNamedCPUModel(model string) bool {
	return !slices.ContainsFunc(CPUModels, func(o Option) bool { return o.Value == model })
}

// CPUModelUse counts the hosts that support a CPU model, and all hosts (Of).
type CPUModelUse struct {
	Model     string
	Hosts, Of int
}
