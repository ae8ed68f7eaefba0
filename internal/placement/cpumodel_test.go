package placement_test

import (
	"testing"

	"quantix/internal/placement"
)

func TestNewestModelReturnsNewestCommonCPUModel(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		sets [][]string
		want string
	}{
		"no sets":                    {nil, ""},
		"one set":                    {[][]string{{"EPYC", "EPYC-Rome", "Nehalem"}}, "EPYC-Rome"},
		"two sets of one vendor":     {[][]string{{"Haswell", "Skylake-Server", "qemu64"}, {"Haswell", "Icelake-Server", "Skylake-Server"}}, "Skylake-Server"},
		"two vendors":                {[][]string{{"EPYC", "Nehalem", "Westmere", "Opteron_G2"}, {"Haswell", "Nehalem", "Opteron_G2"}}, "Nehalem"},
		"nothing in common":          {[][]string{{"EPYC"}, {"Haswell"}}, ""},
		"host without models":        {[][]string{{"EPYC"}, nil}, "EPYC"},
		"another architecture":       {[][]string{{"EPYC"}, {"cortex-a72"}}, "EPYC"},
		"with variants":              {[][]string{{"Nehalem", "Nehalem-IBRS"}, {"Nehalem-IBRS", "Nehalem"}}, "Nehalem-IBRS"},
		"with a variant in one":      {[][]string{{"Nehalem", "Nehalem-IBRS"}, {"Nehalem"}}, "Nehalem"},
		"unknown names":              {[][]string{{"Nehalem", "Zeppelin-9000"}, {"Nehalem", "Zeppelin-9000"}}, "Nehalem"},
		"model named like a variant": {[][]string{{"Haswell-noTSX", "Haswell"}, {"Haswell-noTSX"}}, "Haswell-noTSX"},
		"name with a known prefix":   {[][]string{{"EPYCXX", "EPYC-Turin"}}, ""},
	} {
		if got := placement.NewestModel(c.sets); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
