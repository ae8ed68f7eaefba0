package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// shard is a part of the ordeal: the tests of one package whose names match a pattern.
type shard struct {
	name    string
	pkg     string // directory of the package in the module
	tests   string // regular expression of test names; a test belongs to the first shard of its package that matches
	watches string // regular expression of files: after a change of such a file, `task ordeal:changed` runs the shard
	race    bool   // use the race detector, which shards without guests do
}

// Packages whose tests run real guests.
const (
	libvirtPkg = "agent/libvirt"
	labPkg     = "internal/lab"
	e2ePkg     = "internal/e2e"
	benchPkg   = "internal/bench" // contains only benchmarks
)

// shards are all shards of the ordeal. The last shard of a package contains the package's remaining tests.
var shards = []shard{
	{"conformance", libvirtPkg, `^Test(TwoHost)?Conformance$`, `^agent/(hypervisor|libvirt|mock|pooldir|state)/|^agent/[^/]+\.go$|^internal/(fleet|lab)/`, false},
	{"cut-off", libvirtPkg, `CutOff|Interrupted|ChangesOver|Pivot|HasLost`, `^agent/libvirt/(faults|cutoff|childagent|wholeagent|snap|move|merge|apply|orphan|domxml/metadata|hostfile/wait|storage/(pools|report))|^agent/(hypervisor|state)/|^agent/[^/]+\.go$`, false},
	{"storage", libvirtPkg, `Pool|NFS|RBD|Gluster|ISCSI|Volume|Wipe|Rename|Storage|Download|Upload`, `^agent/(libvirt/(hostfile|storage|pool|volume|ceph|iscsi|rename|status)|pooldir|state|fetch|upload|image|transfer|blockdev)|^internal/lab/`, false},
	{"networks", libvirtPkg, `Network|SecurityGroup|Spoof|Frames|Firewall|DHCP|PortGroup|Reserved|MTU|Filter`, `^agent/(libvirt/(network|filter|portgroup|reserv|retune|domxml/nicfilter)|link)|^internal/lab/`, false},
	{"guests", libvirtPkg, `.`, `^agent/libvirt/|^internal/lab/`, false},
	{"lab", labPkg, `.`, `^internal/lab/`, false},
	{"screens", e2ePkg, `^TestScreenshots$`, `^(web|views|static)/|^internal/(policy|control/query)/`, false},
	{"lives", e2ePkg, `^TestVMLifecycle|^TestImageCatalog|^TestUploads|^TestDisk|^TestVirsh|^TestVolume`, `^(agent|web|internal/(control|fleet|firstboot|ovf))/`, false},
	{"storms", e2ePkg, `^TestNoStaleState|^TestTenTabs|^TestFaults|^TestPoolFailure`, `^agent/((hypervisor|pooldir|state)/)?[^/]+\.go$|^internal/(wire|agentconn|notify|reconcile|control)/|^web/`, false},
	{"migrations", e2ePkg, `^Test(Live)?Migration|^TestTermination`, `^internal/(bmc|control/hostpower)/|^agent/((hypervisor|migration|mock|state|transfer)/)?[^/]+\.go$|^agent/libvirt/(livemigration|migrat|receivevm)|^internal/(wire|relay)/|^internal/control/(agentapi/|vm_migrate)|^db/query/(claim|places|transfers)`, false},
	{"alarms", e2ePkg, `Alarm`, `^internal/(alarm|channel|delivery|reconcile|remedy)/|^internal/control/(alarms|channels|hosts|agentapi)/|^internal/control/(maintenance|query/(alarm|hosts|causes))|^agent/[^/]+\.go$`, false},
	{"health", e2ePkg, `^TestHealth`, `^agent/(healthcheck/|hostchecks|ownchecks)|^internal/(healthevent|healthpolicy|control/health(policies)?)/|^internal/control/evictions|^views/(host/health|healthpolicy/)`, false},
	{"failover", e2ePkg, `Portal|Postgres|Agent|Identity|Lab|Demo|Directory|FailedStarts|Setting|ReadyLine`, `^internal/(cli|config|pglocal|lab|control|notify|hostcommand)/|^agent/(diagnose|logtail)/|^db/|^main\.go$`, false},
	{"between-hosts", e2ePkg, `BetweenHosts|BetweenGuests|^TestNetwork`, `^agent/(link|transfer|libvirt/(network|filter|retune|domxml/nicfilter))|^internal/(relay|agentconn|wire)/`, false},
	{"pages", e2ePkg, `.`, `^(web|views|static)/`, false},
	{"control", "internal/control", `.`, `^internal/control/|^db/`, true},
	{"metrics", "internal/control/metrics", `.`, `^internal/control/metrics/|^db/`, true},
	{"database", "db", `.`, `^db/`, true},
	{"load", "internal/load", `.`, `^internal/load/|^web/`, true},
	{"web", "web", `.`, `^(web|views)/`, true},
}

// wholeTests are tests that the gate runs only partly. The ordeal runs them completely.
var wholeTests = map[string][]string{
	libvirtPkg: {"TestConformance"},
	e2ePkg:     {"TestScreenshots"},
}

// shardTests is a shard together with its tests.
type shardTests struct {
	shard
	names []string
}

// assignTests assigns each package's tests to the package's shards. It is an error if a test has no shard or a shard
// has no tests.
func assignTests(all []shard, tests map[string][]string) ([]shardTests, error) {
	parts := make([]shardTests, len(all))
	for i, s := range all {
		parts[i].shard = s
	}
	for pkg, names := range tests {
		for _, name := range names {
			i := slices.IndexFunc(all, func(s shard) bool { return s.pkg == pkg && regexp.MustCompile(s.tests).MatchString(name) })
			if i < 0 {
				return nil, fmt.Errorf("no shard includes %s of %s: add it to a shard in shards.go", name, pkg)
			}
			parts[i].names = append(parts[i].names, name)
		}
	}
	for i, p := range parts {
		if len(p.names) == 0 {
			return nil, fmt.Errorf("the shard %s has no tests: change or remove it in shards.go", p.name)
		}
		slices.Sort(parts[i].names)
	}
	return parts, nil
}

// runPattern returns the argument of go test -run for the part.
func (p shardTests) runPattern() string { return "^(" + strings.Join(p.names, "|") + ")$" }

// affectedBy reports whether changes of these files require a run of the shard. Changes of the shard's own test files
// always do.
func (p shardTests) affectedBy(files []string) bool {
	watched := regexp.MustCompile(p.watches)
	return slices.ContainsFunc(files, func(f string) bool {
		return watched.MatchString(f) || strings.HasPrefix(f, p.pkg+"/") && strings.HasSuffix(f, "_test.go")
	})
}
