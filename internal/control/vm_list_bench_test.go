package control_test

import (
	"testing"

	"quantix/internal/control"
	"quantix/internal/fleet"
	"quantix/internal/testkit"
)

// BenchmarkListVMs reads the first page of 100 out of 100,000 VMs on 100 hosts.
func BenchmarkListVMs(b *testing.B) {
	pool := testkit.DB(b)
	testkit.Seed(b, pool, 100, 100_000)
	testkit.KeepOnline(b, pool)
	c := control.New(pool, control.Options{})
	for name, q := range map[string]fleet.Query{
		"by name":            {},
		"running prod":       {Filter: "state:running label:env=prod"},
		"running by memory":  {Filter: "state:running", Sort: "-memory"},
		"crashed":            {Filter: "state:crashed"},
		"by host":            {Sort: "host"},
		"one MAC":            {Filter: "mac:52:54:00:01:00:01"},
		"a net":              {Filter: "address:10.1.8.*"},
		"needs attention":    {Filter: "attention:yes"},
		"part of no name":    {Filter: "nothing"},
		"a host's, of label": {Filter: "host:host-042 label:tier=t3"},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := c.ListVMs(b.Context(), chief, q); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkListVMsBack reads the page before a cursor in the middle of the list.
func BenchmarkListVMsBack(b *testing.B) {
	pool := testkit.DB(b)
	testkit.Seed(b, pool, 100, 100_000)
	testkit.KeepOnline(b, pool)
	c := control.New(pool, control.Options{})
	for _, sort := range []string{"name", "-memory", "host"} {
		q := fleet.Query{Sort: sort}
		var page fleet.Page[fleet.VMView]
		for range 30 {
			var err error
			if page, err = c.ListVMs(b.Context(), chief, q); err != nil {
				b.Fatal(err)
			}
			q.After = page.Next
		}
		q.After, q.Before = "", page.Prev
		b.Run(sort, func(b *testing.B) {
			for b.Loop() {
				if _, err := c.ListVMs(b.Context(), chief, q); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkSearch searches for the start of a name, for an unknown name, and for complete and partial addresses and
// labels.
func BenchmarkSearch(b *testing.B) {
	pool := testkit.DB(b)
	testkit.Seed(b, pool, 100, 100_000)
	testkit.KeepOnline(b, pool)
	c := control.New(pool, control.Options{})
	for name, text := range map[string]string{
		"beginning": "vm-0500", "nothing": "nothing", "address": "10.1.0.1", "beginning of addresses": "10.1.", "beginning of MACs": "52:54:00:01:8", "beginning of labels": "env=p",
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := c.Search(b.Context(), chief, text, 8); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
