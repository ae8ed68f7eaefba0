package fleet_test

import (
	"testing"

	"quantix/internal/fleet"
)

func TestTheNewestModelOfAll(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		sets [][]string
		want string
	}{
		"of none":                    {nil, ""},
		"of one":                     {[][]string{{"EPYC", "EPYC-Rome", "Nehalem"}}, "EPYC-Rome"},
		"of two of a kind":           {[][]string{{"Haswell", "Skylake-Server", "qemu64"}, {"Haswell", "Icelake-Server", "Skylake-Server"}}, "Skylake-Server"},
		"of two makers":              {[][]string{{"EPYC", "Nehalem", "Westmere", "Opteron_G2"}, {"Haswell", "Nehalem", "Opteron_G2"}}, "Nehalem"},
		"of nothing in common":       {[][]string{{"EPYC"}, {"Haswell"}}, ""},
		"beside a silent host":       {[][]string{{"EPYC"}, nil}, "EPYC"},
		"beside another kind":        {[][]string{{"EPYC"}, {"cortex-a72"}}, "EPYC"},
		"with variants":              {[][]string{{"Nehalem", "Nehalem-IBRS"}, {"Nehalem-IBRS", "Nehalem"}}, "Nehalem-IBRS"},
		"with a variant in one":      {[][]string{{"Nehalem", "Nehalem-IBRS"}, {"Nehalem"}}, "Nehalem"},
		"with names nobody knows":    {[][]string{{"Nehalem", "Zeppelin-9000"}, {"Nehalem", "Zeppelin-9000"}}, "Nehalem"},
		"of a model like a variant":  {[][]string{{"Haswell-noTSX", "Haswell"}, {"Haswell-noTSX"}}, "Haswell-noTSX"},
		"of a name like one of them": {[][]string{{"EPYCXX", "EPYC-Turin"}}, ""},
	} {
		if got := fleet.NewestModel(c.sets); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
