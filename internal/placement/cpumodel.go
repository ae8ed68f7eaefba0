package placement

import (
	"slices"
	"strings"
)

// modelsByAge are the x86 CPU models that fleet.BaselineModel can select, oldest first. A variant such as -IBRS is as
// old as its model.
var modelsByAge = []string{
	"qemu64", "kvm64", "Opteron_G1", "Opteron_G2", "core2duo", "Conroe", "phenom", "Opteron_G3", "Penryn", "Nehalem", "Westmere", "SandyBridge", "Opteron_G4",
	"IvyBridge", "Opteron_G5", "Haswell", "Broadwell", "Skylake-Client", "Skylake-Server", "EPYC", "Cascadelake-Server",
	"EPYC-Rome", "Cooperlake", "Icelake-Server", "EPYC-Milan", "EPYC-Genoa", "SapphireRapids", "GraniteRapids",
}

// modelAge returns the model's index in modelsByAge; -1: not listed.
func modelAge(model string) int {
	for i, m := range slices.Backward(modelsByAge) {
		rest, is := strings.CutPrefix(model, m)
		if is && (rest == "" || rest == "-IBRS" || rest == "-IBPB" || rest == "-noTSX" || rest == "-noTSX-IBRS") {
			return i
		}
	}
	return -1
}

// NewestModel returns the newest model that all sets contain; empty: none. Sets without x86 models (other
// architectures, hosts that report none) are ignored.
func NewestModel(sets [][]string) string {
	var common []string
	started := false
	for _, set := range sets {
		set = slices.DeleteFunc(slices.Clone(set), func(m string) bool { return modelAge(m) < 0 })
		switch {
		case len(set) == 0:
		case !started:
			common, started = set, true
		default:
			common = slices.DeleteFunc(common, func(m string) bool { return !slices.Contains(set, m) })
		}
	}
	newest := ""
	for _, m := range slices.Sorted(slices.Values(common)) { // of several variants of a model, the longest name wins
		if newest == "" || modelAge(m) >= modelAge(newest) {
			newest = m
		}
	}
	return newest
}
