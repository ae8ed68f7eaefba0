package fleet

import (
	"slices"
	"strings"
)

// BaselineModel asks for the newest named CPU model that all hosts can give: the portal puts its name in this one's place, and there it stays.
const BaselineModel = "baseline"

// modelsByAge are the models of x86 processors that a baseline can be, the oldest first. A model's variants, such as -IBRS, are as old as itself.
var modelsByAge = []string{
	"qemu64", "kvm64", "Opteron_G1", "Opteron_G2", "core2duo", "Conroe", "phenom", "Opteron_G3", "Penryn", "Nehalem", "Westmere", "SandyBridge", "Opteron_G4",
	"IvyBridge", "Opteron_G5", "Haswell", "Broadwell", "Skylake-Client", "Skylake-Server", "EPYC", "Cascadelake-Server",
	"EPYC-Rome", "Cooperlake", "Icelake-Server", "EPYC-Milan", "EPYC-Genoa", "SapphireRapids", "GraniteRapids",
}

// modelAge is where the model is among them; below zero: it is none of them.
func modelAge(model string) int {
	for i, m := range slices.Backward(modelsByAge) {
		rest, is := strings.CutPrefix(model, m)
		if is && (rest == "" || rest == "-IBRS" || rest == "-IBPB" || rest == "-noTSX" || rest == "-noTSX-IBRS") {
			return i
		}
	}
	return -1
}

// NewestModel is the newest that is in all of the sets; empty: there is none. Sets of other architectures, and of hosts that tell nothing, count for nothing.
func NewestModel(sets [][]string) string {
	var common []string
	counted := false
	for _, set := range sets {
		set = slices.DeleteFunc(slices.Clone(set), func(m string) bool { return modelAge(m) < 0 })
		switch {
		case len(set) == 0:
		case !counted:
			common, counted = set, true
		default:
			common = slices.DeleteFunc(common, func(m string) bool { return !slices.Contains(set, m) })
		}
	}
	newest := ""
	for _, m := range slices.Sorted(slices.Values(common)) { // of variants the one with the most to its name
		if newest == "" || modelAge(m) >= modelAge(newest) {
			newest = m
		}
	}
	return newest
}

// NamedModel is the name of the CPU model that the VM asks for; empty: one that each host has by itself.
func (s VMSpec) NamedModel() string {
	if slices.ContainsFunc(CPUModels, func(o Option) bool { return o.Value == s.CPU.Model }) {
		return ""
	}
	return s.CPU.Model
}

// CPUModelUse is a named CPU model, and on how many of all hosts guests can have it.
type CPUModelUse struct {
	Model     string
	Hosts, Of int
}
