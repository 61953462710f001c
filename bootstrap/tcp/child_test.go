package tcp

const childMarker = "PGAS_TEST_CHILD"

func childMain() int { return 0 }
