package control_test

import (
	"testing"

	"quantix/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }
