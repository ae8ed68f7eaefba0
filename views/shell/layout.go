package shell

const htmxConfig = `{"allowEval":false,"includeIndicatorStyles":false,"selfRequestsOnly":true,"allowScriptTags":false,"disableInheritance":true,"historyCacheSize":0,"refreshOnHistoryMiss":true,"scrollIntoViewOnBoost":false,"defaultSwapStyle":"innerHTML","timeout":20000,"responseHandling":[{"code":"204","swap":false},{"code":"422","swap":true},{"code":"[23]..","swap":true},{"code":"[45]..","swap":false,"error":true}]}`
