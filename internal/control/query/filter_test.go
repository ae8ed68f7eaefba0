package query

import (
	"slices"
	"testing"

	"quantix/internal/fleet"
)

// Each filter key of a list has a condition in the list's listFilter, and each condition belongs to a filter key of the
// list.
func TestEveryFilterKeyHasSQLCondition(t *testing.T) {
	t.Parallel()
	for list, c := range map[string]struct {
		keys       fleet.FilterKeys
		conditions listFilter
		afterwards []string // keys applied to the rows that SQL returns
	}{
		"VMs":            {fleet.VMKeys, vmFilter, nil},
		"discovered VMs": {fleet.DiscoveredKeys, discoveredFilter, nil},
		"hosts":          {fleet.HostKeys, hostFilter, nil},
		"clusters":       {fleet.ClusterKeys, clusterFilter, nil},
		"pools":          {fleet.PoolKeys, poolFilter, []string{"health", "source", "used", "free"}},
		"networks":       {fleet.NetworkKeys, networkFilter, nil},
		"images":         {fleet.ImageKeys, imageFilter, nil},
		"templates":      {fleet.TemplateKeys, templateFilter, nil},
		"tasks":          {append(slices.Clone(fleet.TaskKeys), fleet.FilterKey{Key: "name"}), taskFilter, nil}, // a word without a key
		"users":          {fleet.UserKeys, userFilter, nil},
	} {
		for _, k := range c.keys {
			if _, ok := c.conditions[k.Key]; ok == slices.Contains(c.afterwards, k.Key) {
				t.Errorf("%s: the key %q has a condition in SQL: %v", list, k.Key, ok)
			}
		}
		for key := range c.conditions {
			if k, ok := c.keys.Find(key); !ok || k.Key != key {
				t.Errorf("%s: the condition %q has no key", list, key)
			}
		}
	}
}
