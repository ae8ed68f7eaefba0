//go:build !ordeal

package control_test

// randomQuotaActs is the number of acts of TestUsageEqualsRecountAfterRandomActs.
const randomQuotaActs = 400
