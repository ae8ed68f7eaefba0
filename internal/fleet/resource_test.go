package fleet_test

import (
	"net/url"
	"strings"
	"testing"

	"quantix/internal/diagram"
	"quantix/internal/fleet"
)

func allResourceTypes() map[fleet.ResourceType]fleet.ResourceTypeInfo {
	all := map[fleet.ResourceType]fleet.ResourceTypeInfo{}
	for _, n := range []fleet.ResourceType{
		fleet.TypeVM, fleet.TypeDiscovered, fleet.TypeHost, fleet.TypePool, fleet.TypeNetwork, fleet.TypeProject, fleet.TypeUser, fleet.TypeTask, fleet.TypeVolume,
		fleet.TypeImage, fleet.TypeSecurityGroup, fleet.TypeTemplate, fleet.TypeCluster,
	} {
		all[n] = n.Info()
	}
	return all
}

func TestResourceTypeTableIsConsistent(t *testing.T) {
	t.Parallel()
	for n, is := range allResourceTypes() {
		if is.Key != n || is.Label == "" || is.Plural == "" || is.Title == "" || is.Icon == "" || is.See == "" {
			t.Errorf("%s is incomplete: %+v", n, is)
		}
		listed, known := fleet.ResourceTypeByPlural(is.Plural)
		worded, place := fleet.ResourceTypeByLabel(is.Label)
		if !known || listed.Key != n || worded.Key != n || place < 0 {
			t.Errorf("%s shares its names with %s or %s", n, listed.Key, worded.Key)
		}
		if is.Path != "" && is.Path != "/"+is.Plural || is.FollowsOwnKey && (is.AllKey != string(n)+":*" && !is.HasParts || is.Path == "") || is.ProjectKeyPrefix != "" && is.AllKey == "" {
			t.Errorf("%s is inconsistent: %+v", n, is)
		}
		for _, tree := range is.Trees {
			if diagram.TreeByName(tree).Name != tree {
				t.Errorf("%s names an unknown tree %q", n, tree)
			}
		}
		if _, views := fleet.SavedViewQuery(is.Plural, url.Values{}); views != (is.View != nil) || views && is.Filter == nil {
			t.Errorf("saved views of %s: %v", is.Plural, views)
		}
	}
	if _, known := fleet.ResourceTypeByPlural("teapots"); known || fleet.ResourceType("teapot").Info().Key != "" {
		t.Error("an unknown resource type is found")
	}
}

// Each tree has a permission, and its root follows wake-up keys that exist.
func TestInventoryTreeTableIsConsistent(t *testing.T) {
	t.Parallel()
	for _, tree := range diagram.TreeViews {
		if tree.Word == "" || tree.Icon == "" || tree.Right == "" || !strings.HasSuffix(tree.Empty, ".") {
			t.Errorf("%s is incomplete: %+v", tree.Name, tree)
		}
		for key := range strings.FieldsSeq(tree.Live) {
			if of, _ := fleet.ResourceTypeByPlural(key); of.AllKey == "" {
				t.Errorf("%s follows the unknown key %q", tree.Name, key)
			}
		}
	}
}

func TestEveryResourceTypeHasPath(t *testing.T) {
	t.Parallel()
	for n, is := range allResourceTypes() {
		at, want := is.PagePath("a/b"), is.Path+"/a%2Fb"
		switch n {
		case fleet.TypeDiscovered:
			want = "/hosts/a/found/b" // shown below its host
		case fleet.TypeVolume:
			want = "/pools/a?tab=volumes" // shown on the page of its pool
		}
		if at != want {
			t.Errorf("%s: %q, not %q", n, at, want)
		}
	}
	if s := fleet.SubjectOf(fleet.TypeNetwork, fleet.NetworkID("1")); s != "net:1" {
		t.Errorf("subject %q", s)
	}
}
